/* The manifest of the fake packages: what they embed, and what the tests write beside them. */
#ifndef CUTEDSL_QUANT_TESTS_FFI_BRIDGE_FAKE_MANIFEST_H_
#define CUTEDSL_QUANT_TESTS_FFI_BRIDGE_FAKE_MANIFEST_H_

#include <tvm/ffi/c_api.h>

#define FAKE_TEXT_(x) #x
#define FAKE_TEXT(x) FAKE_TEXT_(x)
#define FAKE_TVM_FFI_VERSION \
  FAKE_TEXT(TVM_FFI_VERSION_MAJOR) "." FAKE_TEXT(TVM_FFI_VERSION_MINOR) ".0.dev1"

/* Two configurations, ascending by id. */
#define FAKE_FIRST_KERNEL "cutedsl_mxfp8_fp32_fp8_e4m3fn_1_0_0_0_0_0_0_0_none"
#define FAKE_SECOND_KERNEL "cutedsl_mxfp8_bf16_fp8_e4m3fn_1_0_0_0_0_0_0_0_none"
#define FAKE_FIRST_ID 0x00010704u
#define FAKE_SECOND_ID 0x00010706u

/* Without the braces around it. Compute capability 0 is the host's. */
#define FAKE_MANIFEST_FIELDS                                                                     \
  "\"schema\": 1, \"abi_version\": 1, \"name\": \"fake\", \"architecture\": \"host\", "          \
  "\"compute_capabilities\": [0, 90], \"cutlass_dsl\": \"4.8.1\", \"tvm_ffi\": "                 \
  "\"" FAKE_TVM_FFI_VERSION "\", \"source_digest\": \"abc\", \"kernels\": [\"" FAKE_FIRST_KERNEL \
  "\", \"" FAKE_SECOND_KERNEL "\"]"

/* What the two kernels fill the rowwise data with. */
#define FAKE_FIRST_MARK 0x11
#define FAKE_SECOND_MARK 0x22

#endif /* CUTEDSL_QUANT_TESTS_FFI_BRIDGE_FAKE_MANIFEST_H_ */
