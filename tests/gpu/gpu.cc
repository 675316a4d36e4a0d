#include "tests/gpu/gpu.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "common/device_guard.h"

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

namespace {

bool IsSetTo(const char* variable, const char* value) {
  const char* const actual = getenv(variable);
  return actual != nullptr && std::string(actual) == value;
}

}  // namespace

bool GpuIsRequired() { return IsSetTo("CUTEDSL_QUANT_REQUIRE_GPU", "1"); }

bool TwoGpusAreRequired() { return IsSetTo("CUTEDSL_QUANT_REQUIRE_GPUS", "2"); }

void Synchronize(Device device, cudaStream_t stream) {
  const DeviceGuard guard(device);
  CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));
}

GpuBuffer::GpuBuffer(size_t size, size_t offset, Device device)
    : size_(size), offset_(offset), device_(device) {
  const DeviceGuard guard(device_);
  CUTEDSL_QUANT_CUDA(cudaMalloc(reinterpret_cast<void**>(&base_), total()));
}

GpuBuffer::~GpuBuffer() { cudaFree(base_); }

void GpuBuffer::Fill(uint8_t byte, cudaStream_t stream) {
  const DeviceGuard guard(device_);  // of the default stream
  CUTEDSL_QUANT_CUDA(cudaMemsetAsync(base_, byte, total(), stream));
}

void GpuBuffer::Upload(const void* content, size_t size) {
  CUTEDSL_QUANT_CUDA(cudaMemcpy(data(), content, size, cudaMemcpyHostToDevice));
}

std::vector<uint8_t> GpuBuffer::Download() const {
  std::vector<uint8_t> content(size_);
  CUTEDSL_QUANT_CUDA(cudaMemcpy(content.data(), data(), size_, cudaMemcpyDeviceToHost));
  return content;
}

GpuBuffer::Difference GpuBuffer::Compare(const std::vector<uint8_t>& content, uint8_t guard) const {
  const uint8_t* const actual = Fetch();
  if (memcmp(actual + begin(), content.data(), content.size()) != 0) {
    for (size_t i = 0; i < content.size(); ++i) {
      if (actual[begin() + i] != content[i]) return At(actual, begin() + i, content[i]);
    }
  }
  return CompareGuards(actual, guard);
}

GpuBuffer::Difference GpuBuffer::CompareGuards(uint8_t guard) const {
  return CompareGuards(Fetch(), guard);
}

const uint8_t* GpuBuffer::Fetch() const {
  thread_local std::vector<uint8_t> memory;  // kept: its pages are what a copy waits for
  if (memory.size() < total()) memory.resize(total());
  CUTEDSL_QUANT_CUDA(cudaMemcpy(memory.data(), base_, total(), cudaMemcpyDeviceToHost));
  return memory.data();
}

GpuBuffer::Difference GpuBuffer::At(const uint8_t* actual, size_t i, uint8_t expected) const {
  const bool in_guard = i < begin() || i >= begin() + size_;
  return {true, in_guard, static_cast<int64_t>(i) - static_cast<int64_t>(begin()), actual[i],
          expected};
}

GpuBuffer::Difference GpuBuffer::CompareGuards(const uint8_t* actual, uint8_t guard) const {
  for (size_t i = 0; i < total(); ++i) {
    if (i == begin()) i += size_;
    if (actual[i] != guard) return At(actual, i, guard);
  }
  return {};
}

}  // namespace testing
}  // namespace cutedsl_quant
