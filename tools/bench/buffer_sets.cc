#include "tools/bench/buffer_sets.h"

#include <algorithm>
#include <vector>

#include "common/cuda_check.h"
#include "common/numerics.h"

#define CUTEDSL_QUANT_CUDA(call) ::cutedsl_quant::CheckCuda(call, #call)

namespace cutedsl_quant {
namespace bench {
namespace {

int64_t ElementSize(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }
int64_t Elements(Size size) { return size.rows * size.cols; }
int64_t Bytes(numerics::ScaleShape shape) { return shape.rows * shape.cols; }

int64_t WorkspaceRows(bool with_dact, Size size) {
  return numerics::CeilDiv(size.rows, numerics::DbiasChunkRows(with_dact));
}

}  // namespace

int64_t InputBytes(DType dtype, Size size) { return Elements(size) * ElementSize(dtype); }

int64_t BytesMoved(const Case& measured) {
  const auto& [config, size] = measured;
  int64_t bytes = InputBytes(config.dtype, size) * (config.with_dact ? 2 : 1);
  if (config.rowwise) {
    bytes += Elements(size) + Bytes(numerics::ExactRowwiseScaleShape(size.rows, size.cols));
  }
  if (config.colwise) {
    bytes += Elements(size) + Bytes(numerics::ExactColumnwiseScaleShape(size.rows, size.cols));
  }
  // Partial sums are the kernels' own affair and not counted.
  if (config.with_dbias) bytes += size.cols * ElementSize(config.dtype);
  return bytes;
}

BufferSets::BufferSets(DType dtype, Size size, bool with_act_input, int64_t l2_bytes)
    : dtype_(dtype), size_(size), with_act_input_(with_act_input) {
  const auto [rows, cols] = size;
  const int64_t parts[kParts] = {
      InputBytes(dtype, size),
      with_act_input ? InputBytes(dtype, size) : 0,
      InputBytes(dtype, size),
      Elements(size),
      Elements(size),
      Bytes(numerics::PaddedRowwiseScaleShape(rows, cols)),
      Bytes(numerics::PaddedColumnwiseScaleShape(rows, cols)),
      sizeof(float),
      cols * ElementSize(dtype),
      WorkspaceRows(/*with_dact=*/true, size) * cols * static_cast<int64_t>(sizeof(float)),
  };
  for (int part = 0; part < kParts; ++part) {
    offsets_[part] = set_bytes_;
    set_bytes_ += numerics::RoundUp(parts[part], 256);
  }
  // Between two uses of a set, every kernel and copy moves four times what the cache holds; what is
  // far larger than the cache leaves nothing of its beginning there.
  const int64_t least_moved = InputBytes(dtype, size) + Elements(size);
  const int64_t others =
      least_moved > 64 * l2_bytes ? 0 : numerics::CeilDiv(4 * l2_bytes, least_moved);
  count_ = static_cast<int>(l2_bytes == 0 ? 1 : others + 1);
  CUTEDSL_QUANT_CUDA(
      cudaMalloc(reinterpret_cast<void**>(&base_), static_cast<size_t>(set_bytes_ * count_)));
  FillInputs();
}

BufferSets::~BufferSets() { cudaFree(base_); }

int BufferSets::Launches(int64_t bytes_moved) const {
  const int64_t wanted = std::min<int64_t>(4'000'000'000 / bytes_moved + 1, 1000);
  return static_cast<int>(numerics::RoundUp(wanted, count_));
}

CallTensors BufferSets::Tensors(const QuantizeConfig& config, int set) const {
  const auto [rows, cols] = size_;
  const auto scales = [&](int part, numerics::ScaleShape shape) {
    return Tensor(At(set, part), DType::kFloat8E8M0, kDevice, {shape.rows, shape.cols});
  };
  CallTensors tensors;
  tensors.input = Tensor(At(set, kInput), dtype_, kDevice, {rows, cols});
  tensors.act_input = Tensor(At(set, kActInput), dtype_, kDevice, {rows, cols});
  QuantizedTensor& output = tensors.output;
  output.swizzled_scales = config.swizzled;
  if (config.rowwise) {
    output.rowwise_data = Tensor(At(set, kRowwise), config.fp8_dtype, kDevice, {rows, cols});
    output.rowwise_scale_inv =
        scales(kRowwiseScales, numerics::PaddedRowwiseScaleShape(rows, cols));
  }
  if (config.colwise) {
    output.columnwise_data = Tensor(At(set, kColumnwise), config.fp8_dtype, kDevice, {rows, cols});
    output.columnwise_scale_inv =
        scales(kColumnwiseScales, numerics::PaddedColumnwiseScaleShape(rows, cols));
  }
  if (config.with_amax) output.amax = Tensor(At(set, kAmax), DType::kFloat32, kDevice, {1});
  tensors.dbias = Tensor(At(set, kDbias), dtype_, kDevice, {cols});
  tensors.workspace = Tensor(At(set, kWorkspace), DType::kFloat32, kDevice,
                             {WorkspaceRows(config.with_dact, size_), cols});
  return tensors;
}

void BufferSets::Run(const QuantizeConfig& config, int set, cudaStream_t stream) const {
  CallTensors tensors = Tensors(config, set);
  RunCall(config, tensors, stream);
}

void BufferSets::Copy(int set, cudaStream_t stream) const {
  CUTEDSL_QUANT_CUDA(cudaMemcpyAsync(At(set, kCopy), At(set, kInput),
                                     static_cast<size_t>(InputBytes(dtype_, size_)),
                                     cudaMemcpyDeviceToDevice, stream));
}

void BufferSets::Touch(const LaunchShape& shape, int set, cudaStream_t stream) const {
  LaunchTouch(shape, At(set, kInput), At(set, kCopy), InputBytes(dtype_, size_), stream);
}

void BufferSets::FillInputs() const {
  // Random bits, but for exponents that stay near 1.
  std::vector<uint32_t> words(1 << 20);
  uint64_t state = 1;
  for (uint32_t& word : words) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t bits = static_cast<uint32_t>(state >> 32);
    word = dtype_ == DType::kFloat16 ? (bits & 0x83FF83FFu) | 0x38003800u
                                     : (bits & 0x807F807Fu) | 0x3F003F00u;
  }
  const int64_t chunk = static_cast<int64_t>(words.size() * sizeof(words[0]));
  const int64_t bytes = InputBytes(dtype_, size_);
  for (int set = 0; set < count_; ++set) {
    for (int part : {kInput, kActInput}) {
      if (part == kActInput && !with_act_input_) continue;
      char* const begin = static_cast<char*>(At(set, part));
      CUTEDSL_QUANT_CUDA(cudaMemcpy(begin, words.data(),
                                    static_cast<size_t>(std::min(chunk, bytes)),
                                    cudaMemcpyHostToDevice));
      for (int64_t filled = chunk; filled < bytes; filled *= 2) {
        CUTEDSL_QUANT_CUDA(cudaMemcpy(begin + filled, begin,
                                      static_cast<size_t>(std::min(filled, bytes - filled)),
                                      cudaMemcpyDeviceToDevice));
      }
    }
    CUTEDSL_QUANT_CUDA(cudaMemset(At(set, kAmax), 0, sizeof(float)));
  }
}

void SetMode(Backend backend) {
  SetBackendMode(backend == Backend::kCuda ? BackendMode::kOff : BackendMode::kPackaged);
}

std::string Select(Backend backend, const QuantizeConfig& config, const BufferSets& buffers) {
  SetMode(backend);
  ResetStats();
  buffers.Run(config, 0, nullptr);
  CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(nullptr));
  const Stats stats = GetStats();
  if (stats.calls[static_cast<size_t>(backend)] == 1) return "";
  for (size_t reason = 0; reason < kNumMissReasons; ++reason) {
    if (stats.misses[reason] != 0) return MissReasonName(static_cast<MissReason>(reason));
  }
  return "served by another backend";
}

}  // namespace bench
}  // namespace cutedsl_quant
