#include "ffi_bridge/jit.h"

#include <exception>
#include <string>

#include "ffi_bridge/errors.h"

namespace cutedsl_quant {

CompileResult CompileKernel(const QuantizeConfig& config, int32_t compute_capability) noexcept try {
  const auto factory = tvm::ffi::Function::GetGlobal(kKernelFactoryName);
  if (!factory) return {std::nullopt, MissReason::kNoFactory};
  try {
    const tvm::ffi::Any made = (*factory)(config.Name(), compute_capability);
    // None converts to a function that is null.
    const auto function = made.as<tvm::ffi::Function>();
    if (function && *function != nullptr) return {*function, MissReason::kNone};
    RecordError(
        "compiling ", config,
        std::string(kKernelFactoryName) + " returned " + made.GetTypeKey() + ", not a function");
  } catch (const tvm::ffi::Error& error) {
    RecordError("compiling ", config, error.kind() + ": " + error.message());
  } catch (const std::exception& error) {
    RecordError("compiling ", config, error.what());
  }
  return {std::nullopt, MissReason::kCompileFailed};
} catch (const std::exception&) {
  return {std::nullopt, MissReason::kCompileFailed};
}

}  // namespace cutedsl_quant
