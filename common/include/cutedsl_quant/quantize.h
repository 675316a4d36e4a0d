// MXFP8 quantization: casts of fp32, fp16 and bf16 tensors to FP8 with one E8M0 scale per block of
// 32 elements, by themselves or fused with an activation, its derivative or the column sums of a
// gradient; and back.
//
// All functions work on host tensors (served by the CPU reference, synchronously) and on CUDA
// tensors (launched on the given stream, asynchronously); all tensors of a call live on one device.
// They throw InvalidArgument for bad arguments, before anything is written, and CudaError if CUDA
// fails.
//
// On a stream, ordinary work keeps its order. A kernel launched after a call with programmatic
// stream serialization (cudaLaunchAttributeProgrammaticStreamSerialization) may start while the
// call's kernels still run, and has to call cudaGridDependencySynchronize before it touches their
// tensors.
#ifndef CUTEDSL_QUANT_QUANTIZE_H_
#define CUTEDSL_QUANT_QUANTIZE_H_

#include <stdexcept>

#include "cutedsl_quant/config.h"
#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {

// The message names the function, the tensor, what came and what is accepted.
class InvalidArgument : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// A CUDA runtime call failed; the message names the call and the CUDA error.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An MXFP8 tensor of M x N elements. Directions that are not given are not written (or read).
//
// rowwise_data, columnwise_data: kFloat8E4M3 or kFloat8E5M2, both the same; M x N, row-major. The
//   columnwise data is not transposed.
// rowwise_scale_inv: kFloat8E8M0, (roundup(M, 128), roundup(ceil(N / 32), 4)); the scale of
//   elements [m, 32j .. 32j + 31] stands at [m, j]. Without swizzling, (M, ceil(N / 32)) is
//   accepted too.
// columnwise_scale_inv: kFloat8E8M0, (roundup(ceil(M / 32), 4), roundup(N, 128)); the scale of
//   elements [32i .. 32i + 31, n] stands at [i, n]. Without swizzling, (ceil(M / 32), N) is
//   accepted too.
// swizzled_scales: both scale tensors are in 128x4 tiles of 512 bytes as block-scaled GEMMs read
//   them; padding is written as zero. Otherwise bytes outside the valid region are left untouched.
// amax: kFloat32, {1}, or not given. Raised to max |value| of what is quantized (after a fusion),
//   never lowered: the caller sets the start value. Not read by Dequantize.
struct QuantizedTensor {
  Tensor rowwise_data;
  Tensor rowwise_scale_inv;
  Tensor columnwise_data;
  Tensor columnwise_scale_inv;
  Tensor amax;
  bool swizzled_scales = false;
};

struct QuantizeOptions {
  // kFloat32, {1}, or not given: when its value is exactly 1.0 at the time the kernel runs, nothing
  // is written.
  Tensor noop;
  // One scale for each block of 32x32 elements, written to every place of both layouts that belongs
  // to one of its elements. Served without CuTeDSL kernels.
  bool use_2d_blocks = false;
};

// Casts `input` (kFloat32, kFloat16 or kBFloat16, any shape, contiguous) into the given directions
// of `output`. An input without elements is a success; nothing is written.
void Quantize(const Tensor& input, const QuantizedTensor& output, const QuantizeOptions& options,
              Stream stream);

// The functions below quantize a value computed in fp32 from the input. For 16-bit inputs, the
// value of an activation or a derivative is first rounded to the input's type, as if it had been
// stored.

// Quantizes activation(input); `activation` is kRelu, kGelu, kSilu, kQGelu or kSRelu.
void QuantizeActivation(Activation activation, const Tensor& input, const QuantizedTensor& output,
                        Stream stream);

// Quantizes grad * derivative(act_input), `act_input` having grad's dtype and shape; `derivative`
// is kDRelu, kDGelu, kDSilu, kDQGelu or kDSRelu.
void QuantizeDActivation(Activation derivative, const Tensor& grad, const Tensor& act_input,
                         const QuantizedTensor& output, Stream stream);

// The two below also write the sums of the columns of what is quantized, added up in fp32 before
// any rounding and always in the same order, into `dbias` ({N}, input's dtype; zeros for an input
// without rows). They need a workspace in device memory for partial sums:
//
// workspace: called with a null `data`, a function only describes the workspace that it needs in
//   *workspace (kFloat32, two dimensions, on the input's device), writes nothing else and returns.
//   The caller sets `data` to that much memory and calls again. The description depends on the
//   shape of the input alone, and a workspace may be used again once the call's work is done. An
//   input without rows needs no workspace, and its dbias is zeroed at once.
void QuantizeDbias(const Tensor& input, const QuantizedTensor& output, const Tensor& dbias,
                   Tensor* workspace, Stream stream);

// QuantizeDActivation and QuantizeDbias in one.
void QuantizeDbiasDActivation(Activation derivative, const Tensor& grad, const Tensor& act_input,
                              const QuantizedTensor& output, const Tensor& dbias, Tensor* workspace,
                              Stream stream);

// Casts `input` back into `output` (kFloat32, kFloat16 or kBFloat16, shape of the data). Exactly
// one direction of `input` is read: rowwise if it is given, else columnwise.
void Dequantize(const QuantizedTensor& input, const Tensor& output, Stream stream);

// Rearrange the scales of an M x N tensor from the compact into the swizzled layout and back, for
// each direction whose scale_inv `output` gives; `input` must give it too. Their swizzled_scales
// must say which is which. Of data, only the shape counts: one of the four tensors must be given,
// and those that are must all be M x N (their pointers are neither read nor needed). The two
// buffers of a direction must not overlap. SwizzleScales writes zeros into the padding, whatever
// the input's padding holds; UnswizzleScales leaves bytes outside the valid region untouched.
void SwizzleScales(const QuantizedTensor& input, const QuantizedTensor& output, Stream stream);
void UnswizzleScales(const QuantizedTensor& input, const QuantizedTensor& output, Stream stream);

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_QUANTIZE_H_
