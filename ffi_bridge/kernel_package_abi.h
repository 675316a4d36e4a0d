/* What a kernel package (one shared library of ahead-of-time compiled kernels) exports, and how its
 * kernels are called. Shared by the generated table inside the package and by the loader
 * (kernel_package.h). C, because the table is generated C.
 *
 * Every kernel is a TVM-FFI packed function named QuantizeConfig::Name() with these arguments:
 *
 *   0 input                 DLTensor*, M x N, config dtype
 *   1 act_input             DLTensor*, like input; None unless with_dact
 *   2 rowwise_data          DLTensor*, M x N, FP8; None unless rowwise
 *   3 rowwise_scale_inv     DLTensor*, rows x cols, uint8; None unless rowwise
 *   4 columnwise_data       DLTensor*, M x N, FP8; None unless colwise
 *   5 columnwise_scale_inv  DLTensor*, rows x cols, uint8; None unless colwise
 *   6 amax                  DLTensor*, {1}, float32; None unless with_amax
 *   7 dbias_workspace       DLTensor*, ceil(M / chunk) x N, float32; None unless with_dbias
 *   8 noop                  opaque pointer to one float32 in device memory, or None
 *   9 stream                opaque pointer (cudaStream_t)
 *
 * Inputs and data are aligned to 16 bytes, and N is a multiple of 16. Scales have the extents of
 * their buffer as it lies in memory.
 * FP8 tensors are passed as float8_e4m3fn or float8_e5m2. */
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_PACKAGE_ABI_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_PACKAGE_ABI_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/ffi/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with the structures below and with the argument list above. */
#define CUTEDSL_QUANT_KERNEL_ABI_VERSION 1

typedef struct {
  uint32_t config_id; /* QuantizeConfig::Id() */
  TVMFFISafeCallType call;
} CutedslQuantPackagedKernel;

typedef struct {
  uint32_t abi_version;
  const char* manifest; /* JSON, NUL-terminated */
  size_t num_kernels;
  const CutedslQuantPackagedKernel* kernels; /* ascending by config_id */
} CutedslQuantKernelPackage;

typedef const CutedslQuantKernelPackage* (*CutedslQuantKernelPackageGetter)(void);

/* The symbol that every package exports for dlsym. A package built by Bazel exports the same
 * function a second time under this name + "_" + its target's mangled label, so that several can be
 * linked into one program. */
#define CUTEDSL_QUANT_KERNEL_PACKAGE_SYMBOL "cutedsl_quant_kernel_package"

#ifdef __cplusplus
}
#endif

#endif /* CUTEDSL_QUANT_FFI_BRIDGE_KERNEL_PACKAGE_ABI_H_ */
