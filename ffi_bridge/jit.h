// Kernels compiled on first use, by a factory that another language registers.
#ifndef CUTEDSL_QUANT_FFI_BRIDGE_JIT_H_
#define CUTEDSL_QUANT_FFI_BRIDGE_JIT_H_

#include <tvm/ffi/function.h>

#include <cstdint>
#include <optional>

#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/config.h"

namespace cutedsl_quant {

// The TVM-FFI global function (config_name: str, compute_capability: int) -> Function with the
// arguments of kernel_package_abi.h. An error that it raises means that there is no such kernel for
// now.
inline constexpr char kKernelFactoryName[] = "cutedsl_quant.compile_kernel";

struct CompileResult {
  std::optional<tvm::ffi::Function> function;
  MissReason reason =
      MissReason::kNone;  // kNoFactory or kCompileFailed; RecentErrors (errors.h) tells why
};

// Runs the factory in this thread. Never throws.
CompileResult CompileKernel(const QuantizeConfig& config, int32_t compute_capability) noexcept;

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_FFI_BRIDGE_JIT_H_
