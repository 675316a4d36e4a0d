// A kernel behind a TVM-FFI function.
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_FFI_KERNEL_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_FFI_KERNEL_H_

#include <tvm/ffi/c_api.h>

#include "cutedsl_quant/kernel_provider.h"

namespace cutedsl_quant {

// Calls a function with the arguments of kernel_package_abi.h, described on the stack: nothing is
// allocated.
class FfiKernel final : public Kernel {
 public:
  // `handle` is the first argument of `call`; both must outlive the kernel.
  FfiKernel(TVMFFISafeCallType call, void* handle) : call_(call), handle_(handle) {}

  // False if the function raised an error, which RecentErrors (errors.h) then tells.
  bool Launch(const QuantizeConfig& config, const KernelArgs& args) const noexcept override;

 private:
  const TVMFFISafeCallType call_;
  void* const handle_;
};

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_FFI_BRIDGE_FFI_KERNEL_H_
