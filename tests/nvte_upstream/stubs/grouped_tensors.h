// TransformerEngine's grouped tensors, which this library does not have; included before each of
// the tests. Calls throw, and their tests are left out.
#ifndef CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_GROUPED_TENSORS_H_
#define CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_GROUPED_TENSORS_H_

#include "transformer_engine/transformer_engine.h"

typedef void* NVTEGroupedTensor;

enum NVTEGroupedTensorParam {
  kNVTEGroupedRowwiseData = 0,
  kNVTEGroupedColumnwiseData = 1,
  kNVTEGroupedScale = 2,
  kNVTEGroupedAmax = 3,
  kNVTEGroupedRowwiseScaleInv = 4,
  kNVTEGroupedColumnwiseScaleInv = 5,
  kNVTEGroupedColumnwiseAmax = 6,
  kNVTEGroupedFirstDims = 7,
  kNVTEGroupedLastDims = 8,
  kNVTEGroupedTensorOffsets = 9,
  kNVTEGroupedWithGEMMSwizzledScales = 10,
};

extern "C" {
NVTEGroupedTensor nvte_create_grouped_tensor(NVTEScalingMode scaling_mode, size_t num_tensors,
                                             NVTEShape logical_shape);
void nvte_destroy_grouped_tensor(NVTEGroupedTensor tensor);
void nvte_set_grouped_tensor_param(NVTEGroupedTensor tensor, NVTEGroupedTensorParam param,
                                   const void* buf, size_t size_in_bytes);
void nvte_swizzle_grouped_scaling_factors(const NVTEGroupedTensor input, NVTEGroupedTensor output,
                                          cudaStream_t stream);
void nvte_unswizzle_grouped_scaling_factors(const NVTEGroupedTensor input, NVTEGroupedTensor output,
                                            cudaStream_t stream);
}

#endif  // CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_GROUPED_TENSORS_H_
