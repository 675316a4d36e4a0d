// What tests of TransformerEngine's names share: host tensors as handles.
#ifndef CUTEDSL_QUANT_TESTS_COMMON_NVTE_CASE_H_
#define CUTEDSL_QUANT_TESTS_COMMON_NVTE_CASE_H_

#include <gtest/gtest.h>

#include <vector>

#include "tests/common/cast_case.h"
#include "transformer_engine/transformer_engine.h"

namespace cutedsl_quant {

inline std::vector<size_t> Dims(const NVTEShape& shape) {
  return {shape.data, shape.data + shape.ndim};
}
inline std::vector<size_t> Dims(const Tensor& tensor) {
  return {tensor.shape, tensor.shape + tensor.ndim};
}

inline transformer_engine::TensorWrapper Wrap(const Tensor& tensor) {
  return {tensor.data, Dims(tensor), static_cast<transformer_engine::DType>(tensor.dtype)};
}

inline transformer_engine::TensorWrapper Wrap(HostOutput& output) {
  transformer_engine::TensorWrapper wrapper(NVTE_MXFP8_1D_SCALING);
  const auto set = [&](NVTETensorParam param, const Tensor& tensor) {
    if (!tensor.present()) return;
    wrapper.set_parameter(param, tensor.data, static_cast<transformer_engine::DType>(tensor.dtype),
                          Dims(tensor));
  };
  set(kNVTERowwiseData, output.tensor.rowwise_data);
  set(kNVTERowwiseScaleInv, output.tensor.rowwise_scale_inv);
  set(kNVTEColumnwiseData, output.tensor.columnwise_data);
  set(kNVTEColumnwiseScaleInv, output.tensor.columnwise_scale_inv);
  set(kNVTEAmax, output.tensor.amax);
  wrapper.set_with_gemm_swizzled_scales(output.tensor.swizzled_scales);
  return wrapper;
}

inline void ExpectSame(const HostOutput& actual, const HostOutput& expected) {
  EXPECT_EQ(actual.rowwise_data.contents(), expected.rowwise_data.contents());
  EXPECT_EQ(actual.rowwise_scales.contents(), expected.rowwise_scales.contents());
  EXPECT_EQ(actual.colwise_data.contents(), expected.colwise_data.contents());
  EXPECT_EQ(actual.colwise_scales.contents(), expected.colwise_scales.contents());
  EXPECT_EQ(actual.amax, expected.amax);
  EXPECT_TRUE(actual.guards_intact());
}

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_COMMON_NVTE_CASE_H_
