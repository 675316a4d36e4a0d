// Both GPU backends against the CPU reference, bit for bit. Every output lies poisoned between
// guards before a call, and all of that memory is compared afterwards: a wrong byte, a byte too
// many and one that was forgotten all show.
#include "tests/gpu/gpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/numerics.h"
#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/quantize.h"
#include "tests/gpu/expected.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
constexpr DType kFp8DTypes[] = {DType::kFloat8E4M3, DType::kFloat8E5M2};
constexpr Device kDevice = {DeviceType::kCuda, 0};

// ---- What was compared, printed at the end.

struct Counts {
  std::set<uint32_t> configs;
  std::set<std::string> shapes;
  std::set<ValueClass> value_classes;
  uint64_t casts[kNumBackends] = {};
  uint64_t noop_casts = 0;
  uint64_t dequantizations = 0;
  uint64_t bytes = 0;
};
Counts g_counts;

class PrintCounts : public ::testing::Environment {
 public:
  void TearDown() override {
    printf("Compared bit for bit: %zu configurations x %zu shapes x %zu value classes\n",
           g_counts.configs.size(), g_counts.shapes.size(), g_counts.value_classes.size());
    for (Backend backend : {Backend::kCutedsl, Backend::kCuda}) {
      printf("  %8" PRIu64 " casts by %s\n", g_counts.casts[static_cast<int>(backend)],
             BackendName(backend));
    }
    printf("  %8" PRIu64 " casts with noop, %" PRIu64 " dequantizations; %.1f GB in all\n",
           g_counts.noop_casts, g_counts.dequantizations,
           static_cast<double>(g_counts.bytes) * 1e-9);
  }
};
const auto* const g_print_counts = ::testing::AddGlobalTestEnvironment(new PrintCounts);

// ---- A tensor's way through a call.

struct Shape {
  std::vector<int64_t> dims;
  // Added to addresses aligned to 256 bytes.
  int64_t input_offset = 0;   // elements
  int64_t output_offset = 0;  // bytes
  std::vector<ValueClass> value_classes{std::begin(kAllValueClasses), std::end(kAllValueClasses)};

  int64_t n() const { return dims.empty() ? 1 : dims.back(); }
  int64_t m() const {
    int64_t product = 1;
    for (size_t i = 0; i + 1 < dims.size(); ++i) product *= dims[i];
    return product;
  }
  bool aligned() const { return input_offset == 0 && output_offset == 0; }
  std::string Name() const {
    std::string name;
    for (int64_t dim : dims) name += (name.empty() ? "" : "x") + std::to_string(dim);
    if (dims.empty()) name = "scalar";
    if (input_offset != 0) name += "_input" + std::to_string(input_offset);
    if (output_offset != 0) name += "_output" + std::to_string(output_offset);
    return name;
  }
};

Tensor MakeTensor(void* data, DType dtype, const std::vector<int64_t>& dims) {
  Tensor tensor(data, dtype, kDevice, {});
  tensor.ndim = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.shape);
  return tensor;
}

struct Call {
  DType dtype;
  DType fp8_dtype;
  bool rowwise;
  bool colwise;
  ScaleLayout layout;
  bool with_amax;
  std::optional<float> noop;

  QuantizeConfig Config() const {
    QuantizeConfig config;
    config.dtype = dtype;
    config.fp8_dtype = fp8_dtype;
    config.rowwise = rowwise;
    config.colwise = colwise;
    config.swizzled = layout == ScaleLayout::kSwizzled;
    config.with_amax = with_amax;
    return config;
  }
  std::string Name() const {
    std::string name = Config().Name() + " " + ScaleLayoutName(layout);
    if (noop) name += " noop=" + std::to_string(*noop);
    return name;
  }
};

// All casts of one input: directions, layouts, with and without amax. Exactly-sized buffers are a
// third layout to the caller, and no configuration of their own.
std::vector<Call> AllCalls(DType dtype, DType fp8_dtype) {
  std::vector<Call> calls;
  for (int directions = 1; directions <= 3; ++directions) {
    for (ScaleLayout layout : kScaleLayouts) {
      for (bool with_amax : {false, true}) {
        calls.push_back({dtype, fp8_dtype, (directions & 1) != 0, (directions & 2) != 0, layout,
                         with_amax, std::nullopt});
      }
    }
  }
  return calls;
}

// Who has to serve a call, and why not a CuTeDSL kernel.
struct Route {
  BackendMode mode;
  Backend backend;
  MissReason reason;
};

// The CUDA fallback by itself, and the dispatcher's choice.
std::vector<Route> RoutesOf(const Shape& shape) {
  const Route fallback = {BackendMode::kOff, Backend::kCuda, MissReason::kDisabled};
  if (shape.n() % 16 != 0) {
    return {fallback, {BackendMode::kPackaged, Backend::kCuda, MissReason::kShape}};
  }
  if (!shape.aligned()) {
    return {fallback, {BackendMode::kPackaged, Backend::kCuda, MissReason::kAlignment}};
  }
  return {fallback, {BackendMode::kPackaged, Backend::kCutedsl, MissReason::kNone}};
}

// The expected bytes of one direction, in every layout of its scales.
struct ExpectedDirection {
  const std::vector<uint8_t>* data;
  std::vector<uint8_t> scales[std::size(kScaleLayouts)];

  ExpectedDirection(const Quantized& quantized, bool colwise, int64_t m, int64_t n)
      : data(&quantized.data) {
    for (ScaleLayout layout : kScaleLayouts) {
      scales[static_cast<int>(layout)] =
          ScaleBuffer(quantized.scales, layout, colwise, m, n, kPoison);
    }
  }
};

struct ExpectedBytes {
  Expected values;
  ExpectedDirection rowwise;
  ExpectedDirection columnwise;

  ExpectedBytes(const void* input, DType dtype, DType fp8_dtype, int64_t m, int64_t n)
      : values(MakeExpected(input, dtype, fp8_dtype, m, n)),
        rowwise(values.rowwise, false, m, n),
        columnwise(values.columnwise, true, m, n) {}
};

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

// Device memory for the casts of inputs of one shape and type.
class CastBuffers {
 public:
  CastBuffers(const Shape& shape, DType dtype)
      : shape_(shape),
        m_(shape.m()),
        n_(shape.n()),
        element_size_(ElementSize(dtype)),
        input_(Bytes(m_ * n_ * element_size_), Bytes(shape.input_offset * element_size_)),
        rowwise_(shape, false),
        columnwise_(shape, true),
        amax_(sizeof(float), 0),
        noop_(sizeof(float), 0) {
    input_.Fill(kInputGuard, nullptr);
  }

  void SetInput(const std::vector<uint8_t>& values) {
    values_ = values;
    input_.Upload(values.data(), values.size());
  }

  // Poisons the outputs that `call` names.
  void Prepare(const Call& call, float amax_start, cudaStream_t stream) {
    if (call.rowwise) rowwise_.Poison(stream);
    if (call.colwise) columnwise_.Poison(stream);
    amax_.Fill(kPoison, stream);
    CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));
    amax_.Upload(&amax_start, sizeof(amax_start));
    if (call.noop) noop_.Upload(&*call.noop, sizeof(float));
  }

  void Launch(const Call& call, cudaStream_t stream) {
    QuantizedTensor output;
    output.swizzled_scales = call.layout == ScaleLayout::kSwizzled;
    if (call.rowwise) {
      output.rowwise_data = MakeTensor(rowwise_.data.data(), call.fp8_dtype, shape_.dims);
      output.rowwise_scale_inv = rowwise_.Scales(call.layout);
    }
    if (call.colwise) {
      output.columnwise_data = MakeTensor(columnwise_.data.data(), call.fp8_dtype, shape_.dims);
      output.columnwise_scale_inv = columnwise_.Scales(call.layout);
    }
    if (call.with_amax) output.amax = Tensor(amax_.data(), DType::kFloat32, kDevice, {1});
    QuantizeOptions options;
    if (call.noop) options.noop = Tensor(noop_.data(), DType::kFloat32, kDevice, {1});
    Quantize(MakeTensor(input_.data(), call.dtype, shape_.dims), output, options, stream);
  }

  // Empty if memory is as it should be after `call`, else a description of the first difference.
  std::string Check(const Call& call, const ExpectedBytes& expected, float amax_start) const {
    const bool skipped = call.noop == 1.0f;
    std::string differences;
    const auto compare = [&](const char* name, const GpuBuffer& buffer,
                             const std::vector<uint8_t>& content, int64_t cols) {
      differences += Describe(name, buffer.Compare(content, kPoison), cols);
    };
    const auto compare_direction = [&](const char* data_name, const char* scales_name,
                                       const Direction& direction, const ExpectedDirection& bytes) {
      const auto compare_output = [&](const char* name, const GpuBuffer& buffer,
                                      const std::vector<uint8_t>& written, int64_t cols) {
        if (skipped)
          return compare(name, buffer, std::vector<uint8_t>(written.size(), kPoison), cols);
        compare(name, buffer, written, cols);
      };
      compare_output(data_name, direction.data, *bytes.data, n_);
      compare_output(scales_name, direction.scales, bytes.scales[static_cast<int>(call.layout)],
                     ScaleShapeOf(call.layout, direction.colwise, m_, n_).cols);
    };
    if (call.rowwise) {
      compare_direction("rowwise_data", "rowwise_scale_inv", rowwise_, expected.rowwise);
    }
    if (call.colwise) {
      compare_direction("columnwise_data", "columnwise_scale_inv", columnwise_,
                        expected.columnwise);
    }
    const bool untouched = skipped || !call.with_amax || m_ * n_ == 0;
    const float amax = untouched ? amax_start : RaisedAmax(amax_start, expected.values.amax);
    compare("amax", amax_, BytesOf(amax), 1);
    return differences;
  }

  // Empty if the input still is what it was.
  std::string CheckInput() const {
    return Describe("input", input_.Compare(values_, kInputGuard), n_ * element_size_);
  }

 private:
  static size_t Bytes(int64_t size) { return static_cast<size_t>(size); }

  struct Direction {
    Direction(const Shape& shape, bool colwise)
        : colwise(colwise),
          m(shape.m()),
          n(shape.n()),
          data(Bytes(m * n), Bytes(shape.output_offset)),
          scales(ScaleBytes(), Bytes(shape.output_offset)) {}

    size_t ScaleBytes() const {
      const numerics::ScaleShape shape = ScaleShapeOf(ScaleLayout::kPadded, colwise, m, n);
      return Bytes(shape.rows * shape.cols);
    }
    void Poison(cudaStream_t stream) {
      data.Fill(kPoison, stream);
      scales.Fill(kPoison, stream);
    }
    Tensor Scales(ScaleLayout layout) const {
      const numerics::ScaleShape shape = ScaleShapeOf(layout, colwise, m, n);
      return Tensor(scales.data(), DType::kFloat8E8M0, kDevice, {shape.rows, shape.cols});
    }

    bool colwise;
    int64_t m;
    int64_t n;
    GpuBuffer data;
    GpuBuffer scales;
  };

  static std::string Describe(const char* name, const GpuBuffer::Difference& difference,
                              int64_t cols) {
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

  Shape shape_;
  int64_t m_;
  int64_t n_;
  int64_t element_size_;
  std::vector<uint8_t> values_;
  GpuBuffer input_;
  Direction rowwise_;
  Direction columnwise_;
  GpuBuffer amax_;
  GpuBuffer noop_;
};

// The one comparison: runs `call` as `route` says and compares everything it may have touched.
// False after a failure.
bool RunAndCompare(CastBuffers& buffers, const Shape& shape, const Call& call, const Route& route,
                   const ExpectedBytes& expected) {
  // A start value below every result, an ordinary one, one above every finite result.
  constexpr float kStarts[] = {-1.0f, 0.0f, 3.4e38f};
  static size_t turn = 0;
  const float amax_start = kStarts[turn++ % std::size(kStarts)];

  SetBackendMode(route.mode);
  buffers.Prepare(call, amax_start, nullptr);
  ResetStats();
  std::string failure;
  try {
    buffers.Launch(call, nullptr);
    CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(nullptr));
  } catch (const std::exception& error) {
    failure = std::string("  threw: ") + error.what() + "\n";
  }
  const Stats stats = GetStats();
  if (shape.m() * shape.n() != 0 &&
      (stats.calls[static_cast<int>(route.backend)] != 1 ||
       (route.reason != MissReason::kNone && stats.misses[static_cast<int>(route.reason)] != 1))) {
    failure += std::string("  not served by ") + BackendName(route.backend) + " for the reason " +
               MissReasonName(route.reason) + "; reasons counted:";
    for (size_t i = 0; i < kNumMissReasons; ++i) {
      if (stats.misses[i] != 0) {
        failure += std::string(" ") + MissReasonName(static_cast<MissReason>(i));
      }
    }
    failure += "\n";
  }
  failure += buffers.Check(call, expected, amax_start);

  g_counts.configs.insert(call.Config().Id());
  g_counts.shapes.insert(shape.Name());
  ++g_counts.casts[static_cast<int>(route.backend)];
  g_counts.bytes += static_cast<uint64_t>(shape.m() * shape.n()) * (call.rowwise + call.colwise);
  if (failure.empty()) return true;
  ADD_FAILURE() << call.Name() << " of " << shape.Name() << " by " << BackendName(route.backend)
                << ":\n"
                << failure;
  return false;
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = WhyNoGpu();
    if (!reason.empty() && GpuIsRequired()) {
      FAIL() << reason << ", and CUTEDSL_QUANT_REQUIRE_GPU is 1";
    }
    if (!reason.empty()) GTEST_SKIP() << reason;
    mode_ = GetBackendMode();
  }
  void TearDown() override {
    if (mode_) SetBackendMode(*mode_);
  }

 private:
  std::optional<BackendMode> mode_;
};

// ---- Every configuration x shape x value class.

const std::vector<ValueClass> kFewClasses = {ValueClass::kNormal, ValueClass::kWideRange,
                                             ValueClass::kNans};
const std::vector<ValueClass> kPatternClasses = {ValueClass::kPatterns, ValueClass::kPatternMaxima};

const Shape kShapes[] = {
    // Fit for the CuTeDSL kernels.
    {{1, 16}},
    {{32, 32}},
    {{31, 48}},
    {{33, 16}},
    {{128, 128}},
    {{130, 160}},
    {{257, 992}},
    {{1024, 2048}, 0, 0, kPatternClasses},  // 65,536 blocks in each direction
    {{1024, 4096}, 0, 0, kFewClasses},
    {{4096, 1056}, 0, 0, kFewClasses},
    {{2880, 5008}, 0, 0, kFewClasses},
    {{4096}, 0, 0, kFewClasses},             // one dimension
    {{2, 3, 5, 64}, 0, 0, kFewClasses},      // many
    {{262176, 16}, 0, 0, kFewClasses},       // more rows than 4 x 65,535
    {{0, 64}, 0, 0, {ValueClass::kNormal}},  // nothing
    // For the CUDA fallback alone.
    {{}, 0, 0, kFewClasses},  // no dimension
    {{1}, 0, 0, kFewClasses},
    {{31}, 0, 0, kFewClasses},
    {{7, 33}},
    {{3, 5, 7}, 0, 0, kFewClasses},
    {{65, 1}, 0, 0, kFewClasses},
    {{129, 130}},
    {{100, 200}, 0, 0, kFewClasses},
    {{257, 991}},
    {{262145, 3}, 0, 0, kFewClasses},
    {{1000, 5002}, 0, 0, kFewClasses},
    {{64, 0}, 0, 0, {ValueClass::kNormal}},
    // Fit, but for the addresses.
    {{96, 160}, 1, 0},
    {{96, 160}, 0, 1},
    {{96, 160}, 2, 2, kFewClasses},
    {{96, 160}, 4, 8, kFewClasses},
    {{257, 992}, 1, 3, kFewClasses},
};

class CastTest : public GpuTest, public ::testing::WithParamInterface<Shape> {};

// Finds any byte that differs from the reference, in data, scales, padding or amax; any write
// outside an output; a call that the wrong backend served.
TEST_P(CastTest, MatchesReference) {
  const Shape& shape = GetParam();
  int failures = 0;
  for (DType dtype : kDTypes) {
    CastBuffers buffers(shape, dtype);
    for (ValueClass value_class : shape.value_classes) {
      SCOPED_TRACE(ValueClassName(value_class));
      g_counts.value_classes.insert(value_class);
      const std::vector<uint8_t> values = MakeValues(value_class, dtype, shape.m(), shape.n());
      buffers.SetInput(values);
      for (DType fp8_dtype : kFp8DTypes) {
        const ExpectedBytes expected(values.data(), dtype, fp8_dtype, shape.m(), shape.n());
        for (const Route& route : RoutesOf(shape)) {
          for (const Call& call : AllCalls(dtype, fp8_dtype)) {
            failures += !RunAndCompare(buffers, shape, call, route, expected);
            if (failures >= 10) FAIL() << "enough failures";
          }
        }
      }
      EXPECT_EQ(buffers.CheckInput(), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CastTest, ::testing::ValuesIn(kShapes),
                         [](const auto& info) { return info.param.Name(); });

// ---- noop.

class NoopTest : public GpuTest, public ::testing::WithParamInterface<Shape> {};

// Finds a kernel that writes although noop is 1 (scale padding and amax included), or that takes
// another value for 1.
TEST_P(NoopTest, SkipsExactlyAtOne) {
  const Shape& shape = GetParam();
  int failures = 0;
  for (DType dtype : kDTypes) {
    CastBuffers buffers(shape, dtype);
    const std::vector<uint8_t> values =
        MakeValues(ValueClass::kNormal, dtype, shape.m(), shape.n());
    buffers.SetInput(values);
    for (DType fp8_dtype : kFp8DTypes) {
      const ExpectedBytes expected(values.data(), dtype, fp8_dtype, shape.m(), shape.n());
      for (const Route& route : RoutesOf(shape)) {
        for (Call call : AllCalls(dtype, fp8_dtype)) {
          for (float noop : {1.0f, 0.0f, 0.5f, 1.0000001f}) {
            call.noop = noop;
            failures += !RunAndCompare(buffers, shape, call, route, expected);
            ++g_counts.noop_casts;
            if (failures >= 10) FAIL() << "enough failures";
          }
        }
      }
    }
  }
}

const Shape kNoopShapes[] = {{{130, 160}}, {{97, 131}}};
INSTANTIATE_TEST_SUITE_P(Shapes, NoopTest, ::testing::ValuesIn(kNoopShapes),
                         [](const auto& info) { return info.param.Name(); });

// ---- Dequantize.

class DequantizeTest : public GpuTest, public ::testing::WithParamInterface<Shape> {};

// Finds a wrong code, a wrong scale byte (the special ones 0, 254 and 255 among them), a wrong
// scale address or a write outside the output, for all types, directions and layouts.
TEST_P(DequantizeTest, MatchesReference) {
  const Shape& shape = GetParam();
  const int64_t m = shape.m();
  const int64_t n = shape.n();
  std::vector<uint8_t> data(static_cast<size_t>(m * n));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(Hash(i));
  GpuBuffer gpu_data(data.size(), static_cast<size_t>(shape.output_offset));
  gpu_data.Upload(data.data(), data.size());

  for (bool colwise : {false, true}) {
    const numerics::ScaleShape exact_shape = ScaleShapeOf(ScaleLayout::kExact, colwise, m, n);
    std::vector<uint8_t> exact(static_cast<size_t>(exact_shape.rows * exact_shape.cols));
    for (size_t i = 0; i < exact.size(); ++i) {
      constexpr uint8_t kSpecial[] = {0, 1, 127, 253, 254, 255};
      const uint64_t random = Hash(i + (1ull << 50));
      exact[i] = random % 4 == 0 ? kSpecial[random / 4 % std::size(kSpecial)]
                                 : static_cast<uint8_t>(random >> 8);
    }
    for (ScaleLayout layout : kScaleLayouts) {
      const numerics::ScaleShape scale_shape = ScaleShapeOf(layout, colwise, m, n);
      // Scales of 0xFF beside the real ones: a misread shows as NaN.
      std::vector<uint8_t> scales = ScaleBuffer(exact, layout, colwise, m, n, 0xFF);
      GpuBuffer gpu_scales(scales.size(), static_cast<size_t>(shape.output_offset));
      gpu_scales.Upload(scales.data(), scales.size());
      for (DType fp8_dtype : kFp8DTypes) {
        for (DType dtype : kDTypes) {
          const auto dequantize = [&](void* from, void* scales_from, void* to, Device device) {
            const auto tensor = [&](void* pointer, DType type, std::vector<int64_t> dims) {
              Tensor result = MakeTensor(pointer, type, dims);
              result.device = device;
              return result;
            };
            QuantizedTensor input;
            input.swizzled_scales = layout == ScaleLayout::kSwizzled;
            (colwise ? input.columnwise_data : input.rowwise_data) =
                tensor(from, fp8_dtype, shape.dims);
            (colwise ? input.columnwise_scale_inv : input.rowwise_scale_inv) =
                tensor(scales_from, DType::kFloat8E8M0, {scale_shape.rows, scale_shape.cols});
            Dequantize(input, tensor(to, dtype, shape.dims), nullptr);
          };
          std::vector<uint8_t> expected(data.size() * static_cast<size_t>(ElementSize(dtype)));
          dequantize(data.data(), scales.data(), expected.data(), Device{});
          GpuBuffer output(expected.size(),
                           static_cast<size_t>(shape.input_offset * ElementSize(dtype)));
          output.Fill(kPoison, nullptr);
          dequantize(gpu_data.data(), gpu_scales.data(), output.data(), kDevice);
          CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(nullptr));
          const GpuBuffer::Difference difference = output.Compare(expected, kPoison);
          EXPECT_FALSE(difference.found)
              << DTypeName(fp8_dtype) << " to " << DTypeName(dtype)
              << (colwise ? " columnwise " : " rowwise ") << ScaleLayoutName(layout) << ": byte "
              << difference.offset << " is " << int{difference.actual} << ", expected "
              << int{difference.expected};
          ++g_counts.dequantizations;
          g_counts.bytes += expected.size();
        }
      }
    }
  }
}

const Shape kDequantizeShapes[] = {
    {{1, 16}},      {{31, 48}},        {{257, 992}},      {{}},      {{3, 5, 7}}, {{129, 130}},
    {{4096, 1056}}, {{96, 160}, 1, 0}, {{96, 160}, 0, 1}, {{0, 64}},
};
INSTANTIATE_TEST_SUITE_P(Shapes, DequantizeTest, ::testing::ValuesIn(kDequantizeShapes),
                         [](const auto& info) { return info.param.Name(); });

// ---- Sizes, streams and graphs.

constexpr Call kBothDirections = {
    DType::kBFloat16, DType::kFloat8E4M3, true, true, ScaleLayout::kSwizzled, true, std::nullopt};

// Finds offsets that are computed in 32 bits: wherever they wrap, other data lies there.
TEST_F(GpuTest, MoreThan2To31Elements) {
  constexpr int64_t kRows = 40000;
  constexpr int64_t kCols = 57344;
  constexpr int64_t kSourceRows =
      1024 + 32;  // no power of two, so that no wrapped offset meets the same data
  const Shape shape = {{kRows, kCols}};
  size_t free_bytes, total_bytes;
  CUTEDSL_QUANT_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (free_bytes < size_t{12} << 30) {
    GTEST_SKIP() << "needs 12 GiB of free GPU memory, there are " << (free_bytes >> 30);
  }
  const std::vector<uint8_t> source =
      MakeValues(ValueClass::kNormal, DType::kBFloat16, kSourceRows, kCols);
  const Expected expected =
      MakeExpected(source.data(), DType::kBFloat16, DType::kFloat8E4M3, kSourceRows, kCols);

  const size_t elements = static_cast<size_t>(kRows * kCols);
  GpuBuffer input(elements * 2, 0);
  for (size_t at = 0; at < elements * 2; at += source.size()) {
    CUTEDSL_QUANT_CUDA(cudaMemcpy(static_cast<uint8_t*>(input.data()) + at, source.data(),
                                  std::min(source.size(), elements * 2 - at),
                                  cudaMemcpyHostToDevice));
  }
  GpuBuffer data[2] = {{elements, 0}, {elements, 0}};
  for (const Route& route : RoutesOf(shape)) {
    for (ScaleLayout layout : {ScaleLayout::kExact, ScaleLayout::kSwizzled}) {
      SCOPED_TRACE(std::string(BackendName(route.backend)) + " " + ScaleLayoutName(layout));
      std::vector<std::unique_ptr<GpuBuffer>> scales;
      QuantizedTensor output;
      output.swizzled_scales = layout == ScaleLayout::kSwizzled;
      for (bool colwise : {false, true}) {
        const numerics::ScaleShape scale_shape = ScaleShapeOf(layout, colwise, kRows, kCols);
        scales.push_back(std::make_unique<GpuBuffer>(
            static_cast<size_t>(scale_shape.rows * scale_shape.cols), 0));
        scales.back()->Fill(kPoison, nullptr);
        data[colwise].Fill(kPoison, nullptr);
        (colwise ? output.columnwise_data : output.rowwise_data) =
            MakeTensor(data[colwise].data(), DType::kFloat8E4M3, shape.dims);
        (colwise ? output.columnwise_scale_inv : output.rowwise_scale_inv) = MakeTensor(
            scales.back()->data(), DType::kFloat8E8M0, {scale_shape.rows, scale_shape.cols});
      }
      SetBackendMode(route.mode);
      ResetStats();
      Quantize(MakeTensor(input.data(), DType::kBFloat16, shape.dims), output, QuantizeOptions(),
               nullptr);
      CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(nullptr));
      EXPECT_EQ(GetStats().calls[static_cast<int>(route.backend)], 1u);

      // Bands of 32 rows: the first, those around element 2^31, one between, the last.
      const int64_t last = kRows / 32 - 1;
      const int64_t middle = (int64_t{1} << 31) / kCols / 32;
      for (bool colwise : {false, true}) {
        const Quantized& quantized = colwise ? expected.columnwise : expected.rowwise;
        const int64_t scale_cols = ScaleShapeOf(ScaleLayout::kExact, colwise, kRows, kCols).cols;
        const int64_t inner_tiles = numerics::CeilDiv(colwise ? kRows : kCols, 128);
        std::vector<uint8_t> actual_scales(scales[colwise]->size());
        CUTEDSL_QUANT_CUDA(cudaMemcpy(actual_scales.data(), scales[colwise]->data(),
                                      actual_scales.size(), cudaMemcpyDeviceToHost));
        for (int64_t band : {int64_t{0}, last / 3, middle - 1, middle, middle + 1, last}) {
          SCOPED_TRACE((colwise ? "columnwise band " : "rowwise band ") + std::to_string(band));
          const int64_t source_row = band * 32 % kSourceRows;
          std::vector<uint8_t> actual(32 * kCols);
          CUTEDSL_QUANT_CUDA(cudaMemcpy(
              actual.data(), static_cast<uint8_t*>(data[colwise].data()) + band * 32 * kCols,
              actual.size(), cudaMemcpyDeviceToHost));
          EXPECT_EQ(memcmp(actual.data(), &quantized.data[source_row * kCols], actual.size()), 0);

          int64_t different_scales = 0;
          for (int64_t i = 0; i < (colwise ? 1 : 32); ++i) {
            const int64_t row = colwise ? band : band * 32 + i;
            const int64_t source_scale_row = colwise ? source_row / 32 : source_row + i;
            for (int64_t j = 0; j < scale_cols; ++j) {
              const int64_t index = layout == ScaleLayout::kExact ? row * scale_cols + j
                                    : colwise ? numerics::SwizzledIndex(j, row, inner_tiles)
                                              : numerics::SwizzledIndex(row, j, inner_tiles);
              different_scales +=
                  actual_scales[index] != quantized.scales[source_scale_row * scale_cols + j];
            }
          }
          EXPECT_EQ(different_scales, 0);
        }
      }
    }
  }
}

// Finds state that calls on several streams and threads share, and launches on the wrong stream.
TEST_F(GpuTest, ManyStreamsAndThreads) {
  for (const BackendMode mode : {BackendMode::kOff, BackendMode::kPackaged}) {
    SetBackendMode(mode);
    std::vector<std::string> failures(4);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < failures.size(); ++t) {
      threads.emplace_back([&, t] {
        const Shape shape = {{256 + 32 * static_cast<int64_t>(t), 1024}};
        cudaStream_t stream;
        CUTEDSL_QUANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CastBuffers buffers(shape, kBothDirections.dtype);
        const std::vector<uint8_t> values =
            MakeValues(ValueClass::kNormal, kBothDirections.dtype, shape.m(), shape.n());
        buffers.SetInput(values);
        buffers.Prepare(kBothDirections, 0.0f, stream);
        for (int i = 0; i < 50; ++i) buffers.Launch(kBothDirections, stream);
        CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));
        CUTEDSL_QUANT_CUDA(cudaStreamDestroy(stream));
        const ExpectedBytes expected(values.data(), kBothDirections.dtype,
                                     kBothDirections.fp8_dtype, shape.m(), shape.n());
        failures[t] = buffers.Check(kBothDirections, expected, 0.0f);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  }
}

// Finds launches outside the capturing stream, and anything that is computed on the host at capture
// but depends on the data: the graph is replayed on another input.
TEST_F(GpuTest, GraphReplayOnAnotherInput) {
  const Shape shape = {{320, 1056}};
  cudaStream_t stream;
  CUTEDSL_QUANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const BackendMode mode : {BackendMode::kOff, BackendMode::kPackaged}) {
    SetBackendMode(mode);
    CastBuffers buffers(shape, kBothDirections.dtype);
    buffers.SetInput(MakeValues(ValueClass::kNormal, kBothDirections.dtype, shape.m(), shape.n()));
    buffers.Launch(kBothDirections, stream);  // loads the kernel
    CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));

    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUTEDSL_QUANT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    buffers.Launch(kBothDirections, stream);
    CUTEDSL_QUANT_CUDA(cudaStreamEndCapture(stream, &graph));
    CUTEDSL_QUANT_CUDA(cudaGraphInstantiate(&executable, graph, 0));

    const std::vector<uint8_t> values =
        MakeValues(ValueClass::kWideRange, kBothDirections.dtype, shape.m(), shape.n());
    buffers.SetInput(values);
    buffers.Prepare(kBothDirections, 0.0f, stream);
    CUTEDSL_QUANT_CUDA(cudaGraphLaunch(executable, stream));
    CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));
    const ExpectedBytes expected(values.data(), kBothDirections.dtype, kBothDirections.fp8_dtype,
                                 shape.m(), shape.n());
    EXPECT_EQ(buffers.Check(kBothDirections, expected, 0.0f), "");
    CUTEDSL_QUANT_CUDA(cudaGraphExecDestroy(executable));
    CUTEDSL_QUANT_CUDA(cudaGraphDestroy(graph));
  }
  CUTEDSL_QUANT_CUDA(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
