#include "tests/gpu/call_buffers.h"

#include <cstring>
#include <sstream>

#include "common/numerics.h"
#include "cutedsl_quant/quantize.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {
namespace {

// Signed comparison of the bits: what an atomic maximum of them leaves.
float RaisedAmax(float start, float amax) {
  int32_t bits[2];
  memcpy(&bits[0], &start, sizeof(start));
  memcpy(&bits[1], &amax, sizeof(amax));
  return bits[0] > bits[1] ? start : amax;
}

std::vector<uint8_t> BytesOf(float value) {
  std::vector<uint8_t> bytes(sizeof(value));
  memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

float FloatOf(const std::vector<uint8_t>& bytes) {
  float value;
  memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

std::string Describe(const char* name, const GpuBuffer::Difference& difference, int64_t cols) {
  if (!difference.found) return "";
  std::ostringstream text;
  text << "  " << name << ": byte " << difference.offset;
  if (difference.in_guard) {
    text << ", outside the tensor,";
  } else if (cols > 0) {
    text << ", [" << difference.offset / cols << ", " << difference.offset % cols << "],";
  }
  text << std::hex << " is 0x" << int{difference.actual} << ", expected 0x"
       << int{difference.expected} << "\n";
  return text.str();
}

std::string Describe(const char* name, const GpuBuffer& buffer, const std::vector<uint8_t>& content,
                     int64_t cols) {
  return Describe(name, buffer.Compare(content, kPoison), cols);
}

}  // namespace

ExpectedDirection::ExpectedDirection(const Quantized& quantized, bool colwise, int64_t m, int64_t n)
    : quantized(&quantized) {
  for (ScaleLayout layout : kScaleLayouts) {
    scales[static_cast<int>(layout)] =
        ScaleBuffer(quantized.scales, layout, colwise, m, n, kPoison);
  }
}

ExpectedBytes::ExpectedBytes(const QuantizeConfig& config, const void* input, const void* act_input,
                             int64_t m, int64_t n)
    : values(MakeExpected(config, input, act_input, m, n)),
      rowwise(values.rowwise, false, m, n),
      columnwise(values.columnwise, true, m, n) {
  if (config.with_dbias) dbias = MakeDbiasRanges(config, input, act_input, m, m, n);
}

CallBuffers::CallBuffers(const Shape& shape, DType dtype, Device device)
    : shape_(shape),
      m_(shape.m()),
      n_(shape.n()),
      dtype_(dtype),
      device_(device),
      input_(Bytes(m_ * n_ * ElementSize(dtype)), Bytes(shape.input_offset * ElementSize(dtype)),
             device),
      act_input_(input_.size(), Bytes(shape.act_input_offset * ElementSize(dtype)), device),
      rowwise_(shape, false, device),
      columnwise_(shape, true, device),
      amax_(sizeof(float), 0, device),
      noop_(sizeof(float), 0, device),
      dbias_(Bytes(n_ * ElementSize(dtype)), Bytes(shape.input_offset * ElementSize(dtype)),
             device),
      workspace_(Bytes(numerics::CeilDiv(m_, numerics::DbiasChunkRows(true)) * n_) * sizeof(float),
                 Bytes(shape.input_offset) * sizeof(float), device) {
  input_.Fill(kInputGuard, nullptr);
  act_input_.Fill(kInputGuard, nullptr);
  Synchronize(device_, nullptr);
}

void CallBuffers::SetInput(const std::vector<uint8_t>& values) {
  values_ = values;
  input_.Upload(values.data(), values.size());
}

void CallBuffers::SetActInput(const std::vector<uint8_t>& values) {
  act_values_ = values;
  act_input_.Upload(values.data(), values.size());
}

void CallBuffers::Prepare(const Call& call, float amax_start, cudaStream_t stream) {
  if (call.config.rowwise) rowwise_.Poison(stream);
  if (call.config.colwise) columnwise_.Poison(stream);
  if (call.config.with_dbias) {
    dbias_.Fill(kPoison, stream);
    workspace_.Fill(kPoison, stream);
  }
  amax_.Fill(kPoison, stream);
  Synchronize(device_, stream);
  amax_.Upload(&amax_start, sizeof(amax_start));
  if (call.noop) noop_.Upload(&*call.noop, sizeof(float));
}

int64_t CallBuffers::WorkspaceRows(const QuantizeConfig& config) const {
  return numerics::CeilDiv(m_, numerics::DbiasChunkRows(config.with_dact));
}

CallTensors CallBuffers::Tensors(const Call& call) const {
  const QuantizeConfig& config = call.config;
  CallTensors tensors;
  tensors.input = MakeTensor(input_.data(), dtype_, device_, shape_.dims);
  tensors.act_input = MakeTensor(act_input_.data(), dtype_, device_, shape_.dims);
  QuantizedTensor& output = tensors.output;
  output.swizzled_scales = call.layout == ScaleLayout::kSwizzled;
  if (config.rowwise) {
    output.rowwise_data = rowwise_.Data(call, shape_);
    output.rowwise_scale_inv = rowwise_.Scales(call.layout);
  }
  if (config.colwise) {
    output.columnwise_data = columnwise_.Data(call, shape_);
    output.columnwise_scale_inv = columnwise_.Scales(call.layout);
  }
  if (config.with_amax) output.amax = Tensor(amax_.data(), DType::kFloat32, device_, {1});
  tensors.dbias = Tensor(dbias_.data(), dtype_, device_, {n_});
  tensors.workspace =
      Tensor(workspace_.data(), DType::kFloat32, device_, {WorkspaceRows(config), n_});
  tensors.options.use_2d_blocks = config.use_2d_quantization;
  if (call.noop) tensors.options.noop = Tensor(noop_.data(), DType::kFloat32, device_, {1});
  return tensors;
}

void CallBuffers::Launch(const Call& call, cudaStream_t stream) {
  CallTensors tensors = Tensors(call);
  RunCall(call.config, tensors, stream);
}

std::string CallBuffers::CheckWorkspaceQuery(const Call& call) {
  CallTensors tensors = Tensors(call);
  tensors.workspace = Tensor();
  RunCall(call.config, tensors, nullptr);
  Synchronize(device_, nullptr);
  const Tensor& workspace = tensors.workspace;
  std::ostringstream text;
  if (workspace.data != nullptr || workspace.dtype != DType::kFloat32 ||
      workspace.device != device_ || workspace.ndim != 2 ||
      workspace.shape[0] != WorkspaceRows(call.config) || workspace.shape[1] != n_) {
    text << "  the workspace that is asked for is " << DTypeName(workspace.dtype) << " of "
         << workspace.ndim << " dimensions, " << workspace.rows() << "x" << workspace.cols()
         << "; expected float32, " << WorkspaceRows(call.config) << "x" << n_ << "\n";
  }
  const auto compare = [&](const char* name, const GpuBuffer& buffer) {
    text << Describe(name, buffer, std::vector<uint8_t>(buffer.size(), kPoison), 0);
  };
  if (call.config.rowwise) {
    compare("rowwise_data after the question for a workspace", rowwise_.data);
    compare("rowwise_scale_inv after the question for a workspace", rowwise_.scales);
  }
  if (call.config.colwise) {
    compare("columnwise_data after the question for a workspace", columnwise_.data);
    compare("columnwise_scale_inv after the question for a workspace", columnwise_.scales);
  }
  if (m_ != 0) compare("dbias after the question for a workspace", dbias_);
  return text.str();
}

KernelArgs CallBuffers::Args(const Call& call) const {
  const QuantizeConfig& config = call.config;
  KernelArgs args;
  args.rows = m_;
  args.cols = n_;
  args.input = input_.data();
  if (config.with_dact) args.act_input = act_input_.data();
  if (config.rowwise) {
    args.rowwise_data = static_cast<uint8_t*>(rowwise_.data.data());
    args.rowwise_scale_inv = rowwise_.View(call.layout);
  }
  if (config.colwise) {
    args.columnwise_data = static_cast<uint8_t*>(columnwise_.data.data());
    args.columnwise_scale_inv = columnwise_.View(call.layout);
  }
  if (config.with_amax) args.amax = static_cast<float*>(amax_.data());
  if (config.with_dbias) {
    args.dbias_workspace = static_cast<float*>(workspace_.data());
    args.dbias_workspace_rows = WorkspaceRows(config);
  }
  if (call.noop) args.noop = static_cast<const float*>(noop_.data());
  args.device = device_;
  return args;
}

std::string CallBuffers::Check(const Call& call, const ExpectedBytes& expected, float amax_start,
                               Closeness* closeness) const {
  const QuantizeConfig& config = call.config;
  std::string differences;
  if (config.rowwise) differences += CheckDirection(call, rowwise_, expected.rowwise, closeness);
  if (config.colwise) {
    differences += CheckDirection(call, columnwise_, expected.columnwise, closeness);
  }
  differences += CheckAmax(call, expected.values.amax, amax_start);
  if (config.with_dbias) {
    differences += CheckDbias(expected.dbias);
    differences += CheckWorkspaceEnd(call);
  }
  return differences;
}

std::string CallBuffers::CheckDirection(const Call& call, const Direction& direction,
                                        const ExpectedDirection& expected,
                                        Closeness* closeness) const {
  const bool colwise = direction.colwise;
  const char* const data_name = colwise ? "columnwise_data" : "rowwise_data";
  const char* const scales_name = colwise ? "columnwise_scale_inv" : "rowwise_scale_inv";
  const std::vector<uint8_t>& scales = expected.scales[static_cast<int>(call.layout)];
  const int64_t scale_cols = ScaleShapeOf(call.layout, colwise, m_, n_).cols;
  if (call.skipped()) {
    return Describe(data_name, direction.data, std::vector<uint8_t>(direction.data.size(), kPoison),
                    n_) +
           Describe(scales_name, direction.scales, std::vector<uint8_t>(scales.size(), kPoison),
                    scale_cols);
  }
  const std::string differences =
      Describe(data_name, direction.data, expected.quantized->data, n_) +
      Describe(scales_name, direction.scales, scales, scale_cols);
  if (!IsSmooth(call.config)) return differences;

  closeness->elements += expected.quantized->data.size();
  closeness->blocks += expected.quantized->scales.size();
  if (differences.empty()) return "";
  const std::vector<uint8_t> buffer = direction.scales.Download();
  const Quantized actual = {direction.data.Download(),
                            ExactScales(buffer, call.layout, colwise, m_, n_)};
  // Padding is exact.
  const std::vector<uint8_t> with_padding =
      ScaleBuffer(actual.scales, call.layout, colwise, m_, n_, kPoison);
  return CompareClosely(actual, *expected.quantized, call.config.fp8_dtype, colwise, m_, n_,
                        closeness) +
         Describe(scales_name, direction.scales, with_padding, scale_cols) +
         Describe(data_name, direction.data.CompareGuards(kPoison), n_);
}

std::string CallBuffers::CheckAmax(const Call& call, float expected, float start) const {
  const bool untouched = call.skipped() || !call.config.with_amax || shape_.empty();
  const float amax = untouched ? start : RaisedAmax(start, expected);
  const std::string difference = Describe("amax", amax_, BytesOf(amax), 1);
  if (difference.empty() || !IsSmooth(call.config) || untouched) return difference;
  const float actual = FloatOf(amax_.Download());
  if (CloseAmax(actual, amax, dtype_)) return Describe("amax", amax_.CompareGuards(kPoison), 1);
  return "  amax is " + std::to_string(actual) + ", expected " + std::to_string(amax) + "\n";
}

std::string CallBuffers::CheckDbias(const std::vector<DbiasRange>& ranges) const {
  const std::vector<uint8_t> bytes = dbias_.Download();
  std::ostringstream text;
  for (int64_t col = 0; col < n_ && text.tellp() < 400; ++col) {
    const DbiasRange& range = ranges[static_cast<size_t>(col)];
    const float actual = Decode(dtype_, bytes.data(), col);
    if (range.Contains(actual)) continue;
    text << "  dbias[" << col << "] is " << actual << ", expected " << range.lowest << " to "
         << range.highest << "\n";
  }
  return text.str() + Describe("dbias", dbias_.CompareGuards(kPoison), 0);
}

std::string CallBuffers::CheckWorkspaceEnd(const Call& call) const {
  const std::vector<uint8_t> bytes = workspace_.Download();
  for (size_t i = Bytes(WorkspaceRows(call.config) * n_) * sizeof(float); i < bytes.size(); ++i) {
    if (bytes[i] != kPoison) return "  workspace: a byte behind it was written\n";
  }
  return Describe("workspace", workspace_.CompareGuards(kPoison), 0);
}

std::string CallBuffers::CheckInputs() const {
  std::string differences = Describe("input", input_.Compare(values_, kInputGuard), 0);
  if (!act_values_.empty()) {
    differences += Describe("act_input", act_input_.Compare(act_values_, kInputGuard), 0);
  }
  return differences;
}

CallBuffers::Direction::Direction(const Shape& shape, bool colwise, Device device)
    : colwise(colwise),
      m(shape.m()),
      n(shape.n()),
      device(device),
      data(Bytes(m * n), Bytes(shape.output_offset), device),
      scales(ScaleBytes(), Bytes(shape.output_offset), device) {}

size_t CallBuffers::Direction::ScaleBytes() const {
  const numerics::ScaleShape shape = ScaleShapeOf(ScaleLayout::kPadded, colwise, m, n);
  return Bytes(shape.rows * shape.cols);
}

void CallBuffers::Direction::Poison(cudaStream_t stream) {
  data.Fill(kPoison, stream);
  scales.Fill(kPoison, stream);
}

Tensor CallBuffers::Direction::Data(const Call& call, const Shape& shape) const {
  return MakeTensor(data.data(), call.config.fp8_dtype, device, shape.dims);
}

Tensor CallBuffers::Direction::Scales(ScaleLayout layout) const {
  const ScaleView view = View(layout);
  return Tensor(view.data, DType::kFloat8E8M0, device, {view.rows, view.cols});
}

ScaleView CallBuffers::Direction::View(ScaleLayout layout) const {
  const numerics::ScaleShape shape = ScaleShapeOf(layout, colwise, m, n);
  return {static_cast<uint8_t*>(scales.data()), shape.rows, shape.cols};
}

}  // namespace testing
}  // namespace cutedsl_quant
