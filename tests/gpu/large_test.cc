// Tensors of more than 2^31 elements: offsets that are computed in 32 bits show, because wherever
// they wrap, other data lies there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/numerics.h"
#include "tests/gpu/call.h"
#include "tests/gpu/expected.h"
#include "tests/gpu/gpu.h"
#include "tests/gpu/harness.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {
namespace {

constexpr int64_t kRows = 40000;
constexpr int64_t kCols = 57344;
// The rows repeat; no power of two, so that no wrapped offset meets the same data.
constexpr int64_t kSourceRows = 1024 + 32;
constexpr DType kDType = DType::kBFloat16;
constexpr size_t kElements = static_cast<size_t>(kRows * kCols);

void UploadRepeated(GpuBuffer& buffer, const std::vector<uint8_t>& source) {
  for (size_t at = 0; at < buffer.size(); at += source.size()) {
    CUTEDSL_QUANT_CUDA(cudaMemcpy(static_cast<uint8_t*>(buffer.data()) + at, source.data(),
                                  std::min(source.size(), buffer.size() - at),
                                  cudaMemcpyHostToDevice));
  }
}

// One direction's memory.
struct LargeOutput {
  LargeOutput(bool colwise, ScaleLayout layout)
      : colwise(colwise),
        layout(layout),
        shape(ScaleShapeOf(layout, colwise, kRows, kCols)),
        data(kElements, 0),
        scales(static_cast<size_t>(shape.rows * shape.cols), 0) {
    data.Fill(kPoison, nullptr);
    scales.Fill(kPoison, nullptr);
  }

  // Bands of 32 rows: the first, those around element 2^31, one between, the last.
  void Check(const Quantized& expected) const {
    constexpr int64_t kLast = kRows / 32 - 1;
    constexpr int64_t kMiddle = (int64_t{1} << 31) / kCols / 32;
    const std::vector<uint8_t> actual_scales =
        ExactScales(scales.Download(), layout, colwise, kRows, kCols);
    for (int64_t band : {int64_t{0}, kLast / 3, kMiddle - 1, kMiddle, kMiddle + 1, kLast}) {
      SCOPED_TRACE((colwise ? "columnwise band " : "rowwise band ") + std::to_string(band));
      const int64_t source_row = band * 32 % kSourceRows;
      std::vector<uint8_t> actual(32 * kCols);
      CUTEDSL_QUANT_CUDA(cudaMemcpy(actual.data(),
                                    static_cast<uint8_t*>(data.data()) + band * 32 * kCols,
                                    actual.size(), cudaMemcpyDeviceToHost));
      EXPECT_EQ(memcmp(actual.data(), &expected.data[source_row * kCols], actual.size()), 0);

      // A band has one row of columnwise scales, or 32 rows of rowwise ones.
      const int64_t scales_in_band = colwise ? kCols : kCols / 32 * 32;
      EXPECT_EQ(memcmp(&actual_scales[band * scales_in_band],
                       &expected.scales[source_row / 32 * scales_in_band],
                       static_cast<size_t>(scales_in_band)),
                0);
    }
  }

  bool colwise;
  ScaleLayout layout;
  numerics::ScaleShape shape;
  GpuBuffer data;
  GpuBuffer scales;
};

class LargeTest : public GpuTest {
 protected:
  // By both backends, in two layouts.
  void CompareAll(QuantizeConfig config, ValueClass value_class) {
    size_t free_bytes, total_bytes;
    CUTEDSL_QUANT_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    if (free_bytes < size_t{16} << 30) {
      GTEST_SKIP() << "needs 16 GiB of free GPU memory, there are " << (free_bytes >> 30);
    }
    const std::vector<uint8_t> source = MakeValues(value_class, kDType, kSourceRows, kCols);
    const std::vector<uint8_t> act_source =
        MakeValues(ValueClass::kNormal, kDType, config.with_dact ? kSourceRows : 0, kCols, 1);
    const Expected expected =
        MakeExpected(config, source.data(), act_source.data(), kSourceRows, kCols);
    std::vector<DbiasRange> dbias_ranges;
    if (config.with_dbias) {
      dbias_ranges =
          MakeDbiasRanges(config, source.data(), act_source.data(), kSourceRows, kRows, kCols);
    }
    GpuBuffer input(kElements * 2, 0);
    GpuBuffer act_input(config.with_dact ? kElements * 2 : 0, 0);
    UploadRepeated(input, source);
    UploadRepeated(act_input, act_source);
    GpuBuffer dbias(kCols * 2, 0);
    GpuBuffer workspace(
        static_cast<size_t>(numerics::CeilDiv(kRows, numerics::DbiasChunkRows(true)) * kCols * 4),
        0);

    for (ScaleLayout layout : {ScaleLayout::kExact, ScaleLayout::kSwizzled}) {
      config.swizzled = layout == ScaleLayout::kSwizzled;
      for (const Route& route : RoutesOf({{kRows, kCols}}, {config, layout, std::nullopt})) {
        SCOPED_TRACE(std::string(BackendName(route.backend)) + " " + ScaleLayoutName(layout));
        const LargeOutput rowwise(false, layout);
        const LargeOutput columnwise(true, layout);
        const auto tensor = [](const GpuBuffer& buffer, DType dtype, numerics::ScaleShape shape) {
          return Tensor(buffer.data(), dtype, kDevice, {shape.rows, shape.cols});
        };
        constexpr numerics::ScaleShape kShape = {kRows, kCols};
        CallTensors tensors;
        tensors.input = tensor(input, kDType, kShape);
        tensors.act_input = tensor(act_input, kDType, kShape);
        tensors.output.swizzled_scales = config.swizzled;
        if (config.rowwise) {
          tensors.output.rowwise_data = tensor(rowwise.data, config.fp8_dtype, kShape);
          tensors.output.rowwise_scale_inv =
              tensor(rowwise.scales, DType::kFloat8E8M0, rowwise.shape);
        }
        if (config.colwise) {
          tensors.output.columnwise_data = tensor(columnwise.data, config.fp8_dtype, kShape);
          tensors.output.columnwise_scale_inv =
              tensor(columnwise.scales, DType::kFloat8E8M0, columnwise.shape);
        }
        tensors.dbias = Tensor(dbias.data(), kDType, kDevice, {kCols});
        SetBackendMode(route.mode);
        if (config.with_dbias) {
          RunCall(config, tensors, nullptr);  // describes the workspace
          tensors.workspace.data = workspace.data();
        }
        ResetStats();
        RunCall(config, tensors, nullptr);
        CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(nullptr));
        EXPECT_EQ(GetStats().calls[static_cast<int>(route.backend)], 1u);
        if (config.rowwise) rowwise.Check(expected.rowwise);
        if (config.colwise) columnwise.Check(expected.columnwise);
        if (!config.with_dbias) continue;
        const std::vector<uint8_t> sums = dbias.Download();
        int64_t wrong_sums = 0;
        for (int64_t col = 0; col < kCols; ++col) {
          wrong_sums +=
              !dbias_ranges[static_cast<size_t>(col)].Contains(Decode(kDType, sums.data(), col));
        }
        EXPECT_EQ(wrong_sums, 0);
      }
    }
  }
};

TEST_F(LargeTest, Cast) {
  QuantizeConfig config;
  config.rowwise = config.colwise = true;
  CompareAll(config, ValueClass::kNormal);
}

// Without columns, gapless rows are taken for one.
TEST_F(LargeTest, RowwiseCast) {
  QuantizeConfig config;
  config.rowwise = true;
  CompareAll(config, ValueClass::kNormal);
}

// A derivative that is exact, of whole numbers whose sums are exact too.
TEST_F(LargeTest, DbiasAndDerivative) {
  QuantizeConfig config;
  config.rowwise = config.colwise = true;
  config.with_dbias = true;
  config.with_dact = true;
  config.activation = Activation::kDRelu;
  CompareAll(config, ValueClass::kIntegers);
}

}  // namespace
}  // namespace testing
}  // namespace cutedsl_quant
