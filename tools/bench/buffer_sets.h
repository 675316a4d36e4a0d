// What is measured, and the memory for it.
#ifndef CUTEDSL_QUANT_TOOLS_BENCH_BUFFER_SETS_H_
#define CUTEDSL_QUANT_TOOLS_BENCH_BUFFER_SETS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/config.h"
#include "tools/bench/floor_kernels.h"
#include "tools/bench/fusions.h"
#include "tools/bench/options.h"

namespace cutedsl_quant {
namespace bench {

inline constexpr Device kDevice = {DeviceType::kCuda, 0};

struct Case {
  QuantizeConfig config;
  Size size;
};

int64_t InputBytes(DType dtype, Size size);

// Every input read once, outputs, scales and column sums written once.
int64_t BytesMoved(const Case& measured);

// Memory for calls of one size and type, several times over.
class BufferSets {
 public:
  // `l2_bytes`: the cache that must be cold when a set's turn comes again.
  BufferSets(DType dtype, Size size, bool with_act_input, int64_t l2_bytes);
  ~BufferSets();
  BufferSets(const BufferSets&) = delete;
  BufferSets& operator=(const BufferSets&) = delete;

  int count() const { return count_; }
  // Enough of them for a millisecond or more, each set as often as another.
  int Launches(int64_t bytes_moved) const;

  CallTensors Tensors(const QuantizeConfig& config, int set) const;
  void Run(const QuantizeConfig& config, int set, cudaStream_t stream) const;
  void Copy(int set, cudaStream_t stream) const;
  void Touch(const LaunchShape& shape, int set, cudaStream_t stream) const;

 private:
  enum Part {
    kInput,
    kActInput,
    kCopy,
    kRowwise,
    kColumnwise,
    kRowwiseScales,
    kColumnwiseScales,
    kAmax,
    kDbias,
    kWorkspace,
    kParts
  };

  void* At(int set, int part) const { return base_ + set * set_bytes_ + offsets_[part]; }
  void FillInputs() const;

  DType dtype_;
  Size size_;
  bool with_act_input_;
  int64_t offsets_[kParts];
  int64_t set_bytes_ = 0;
  int count_ = 0;
  char* base_ = nullptr;
};

// The CUDA kernels serve whatever the CuTeDSL kernels are not asked for.
void SetMode(Backend backend);

// Has `backend` serve the calls from now on; empty, or why it does not serve this one.
std::string Select(Backend backend, const QuantizeConfig& config, const BufferSets& buffers);

}  // namespace bench
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TOOLS_BENCH_BUFFER_SETS_H_
