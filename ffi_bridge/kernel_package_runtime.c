/* The one function of the CuTe runtime that compiled kernels need and its static library lacks.
 * Linked into every kernel package, so that a package works without the compiler's 40 MB shared
 * runtime.
 *
 * Kernels are compiled without debug-only launch checks; its sibling for those is never referenced.
 */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <tvm/ffi/c_api.h>

typedef void (*RaiseFromParts)(const char* kind, const char** message_parts, int32_t num_parts);

/* Called by the generated wrapper when a CUDA call fails, before it returns -1. `raise` is the
 * address of TVMFFIErrorSetRaisedFromCStrParts (null: the failure is reported by the return value
 * alone); `code` is a cudaError_t. The error reads like "CUDA error 209
 * (cudaErrorNoKernelImageForDevice): no kernel image is available for ...". */
void CuteDSLRT_TVMFFISetRaisedCudaError(RaiseFromParts raise, int32_t code) {
  if (raise == NULL) return;
  char number[sizeof("-2147483648")];
  snprintf(number, sizeof(number), "%d", (int)code);
  const char* parts[] = {"CUDA error ", number,
                         " (",          cudaGetErrorName((cudaError_t)code),
                         "): ",         cudaGetErrorString((cudaError_t)code)};
  raise("CudaError", parts, (int32_t)(sizeof(parts) / sizeof(parts[0])));
}
