#include "tests/gpu/gpu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace cutedsl_quant {
namespace testing {

std::string WhyNoGpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return "";
  const std::string reason = std::string("no GPU: ") + cudaGetErrorString(status);
  static std::once_flag announced;
  std::call_once(announced, [&] {
    fprintf(stderr, "*** %s: nothing is tested on one ***\n", reason.c_str());
  });
  return reason;
}

bool GpuIsRequired() {
  const char* const required = getenv("CUTEDSL_QUANT_REQUIRE_GPU");
  return required != nullptr && std::string(required) == "1";
}

GpuBuffer::GpuBuffer(size_t size, size_t offset) : size_(size), offset_(offset) {
  CUTEDSL_QUANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&base_), total()));
}

GpuBuffer::~GpuBuffer() { cudaFree(base_); }

void GpuBuffer::Fill(uint8_t byte, cudaStream_t stream) {
  CUTEDSL_QUANT_CUDA(cudaMemsetAsync(base_, byte, total(), stream));
}

void GpuBuffer::Upload(const void* content, size_t size) {
  CUTEDSL_QUANT_CUDA(cudaMemcpy(data(), content, size, cudaMemcpyHostToDevice));
}

GpuBuffer::Difference GpuBuffer::Compare(const std::vector<uint8_t>& content, uint8_t guard) const {
  thread_local std::vector<uint8_t> actual;  // kept: its pages are what a copy waits for
  if (actual.size() < total()) actual.resize(total());
  CUTEDSL_QUANT_CUDA(cudaMemcpy(actual.data(), base_, total(), cudaMemcpyDeviceToHost));

  const auto at = [&](size_t i, uint8_t expected, bool in_guard) {
    return Difference{true, in_guard, static_cast<int64_t>(i) - static_cast<int64_t>(begin()),
                      actual[i], expected};
  };
  if (memcmp(&actual[begin()], content.data(), content.size()) != 0) {
    for (size_t i = 0; i < content.size(); ++i) {
      if (actual[begin() + i] != content[i]) return at(begin() + i, content[i], false);
    }
  }
  for (size_t i = 0; i < total(); ++i) {
    if (i == begin()) i += size_;
    if (actual[i] != guard) return at(i, guard, true);
  }
  return {};
}

}  // namespace testing
}  // namespace cutedsl_quant
