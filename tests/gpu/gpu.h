// What GPU tests need of CUDA: memory with guards around it, errors as failures, and the rule when
// there is no GPU.
#ifndef CUTEDSL_QUANT_TESTS_GPU_GPU_H_
#define CUTEDSL_QUANT_TESTS_GPU_GPU_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cuda_check.h"
#include "cutedsl_quant/tensor.h"

#define CUTEDSL_QUANT_CUDA(call) ::cutedsl_quant::CheckCuda(call, #call)

namespace cutedsl_quant {
namespace testing {

// The GPU of all tests but those that say otherwise.
inline constexpr Device kDevice = {DeviceType::kCuda, 0};

// What output memory holds before a call; nothing else may lie there afterwards than what the call
// had to write.
inline constexpr uint8_t kPoison = 0xA5;
// What surrounds inputs: large numbers or NaN in every type.
inline constexpr uint8_t kInputGuard = 0x7B;

// Empty if there is a GPU, else why there is none; then says so on stderr, once.
std::string WhyNoGpu();
// Whether CUTEDSL_QUANT_REQUIRE_GPU is 1: tests must fail without a GPU instead of being skipped.
bool GpuIsRequired();
// Whether CUTEDSL_QUANT_REQUIRE_GPUS is 2: tests of two GPUs must fail where there is one.
bool TwoGpusAreRequired();

// Waits for the work of a stream of a device, whichever is the current one.
void Synchronize(Device device, cudaStream_t stream);

// A tensor's memory on a GPU, between guards. `offset` bytes are added to an address aligned to 256
// bytes.
class GpuBuffer {
 public:
  GpuBuffer(size_t size, size_t offset, Device device = kDevice);
  ~GpuBuffer();
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;

  void* data() const { return base_ + begin(); }
  size_t size() const { return size_; }

  // Everything, guards included, becomes `byte`.
  void Fill(uint8_t byte, cudaStream_t stream);
  void Upload(const void* content, size_t size);
  std::vector<uint8_t> Download() const;

  // Empty if all of the memory is as it should be: `content`, and `guard` around it; else what
  // differs first. The work that writes the memory has ended.
  struct Difference {
    bool found = false;
    bool in_guard = false;
    int64_t offset = 0;  // from data()
    uint8_t actual = 0;
    uint8_t expected = 0;
  };
  Difference Compare(const std::vector<uint8_t>& content, uint8_t guard) const;
  Difference CompareGuards(uint8_t guard) const;

 private:
  static constexpr size_t kGuard = 4096;
  size_t begin() const { return kGuard + offset_; }
  size_t total() const { return begin() + size_ + kGuard; }
  // All of it, guards included.
  const uint8_t* Fetch() const;
  Difference At(const uint8_t* actual, size_t i, uint8_t expected) const;
  Difference CompareGuards(const uint8_t* actual, uint8_t guard) const;

  uint8_t* base_ = nullptr;
  size_t size_;
  size_t offset_;
  Device device_;
};

}  // namespace testing
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_GPU_GPU_H_
