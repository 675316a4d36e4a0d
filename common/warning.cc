#include "common/warning.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "common/environment.h"

namespace cutedsl_quant {
namespace {

const char* Advice(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      break;
    case MissReason::kDisabled:
      return "the backend is switched off; unset NVTE_ENABLE_CUTEDSL_QUANT_BACKEND or call "
             "SetBackendMode to switch it on";
    case MissReason::kNoProvider:
      return "the program has no kernel provider; link //ffi_bridge";
    case MissReason::kHostTensor:
      return "the tensors are in host memory; copy them to a CUDA device";
    case MissReason::kUnsupportedConfig:
      return "no CuTeDSL kernel exists for this combination; 32x32 blocks have none";
    case MissReason::kShape:
      return "the kernels need a last dimension that is a multiple of 16; pad it";
    case MissReason::kAlignment:
      return "the kernels need input and data pointers aligned to 16 bytes; align them";
    case MissReason::kNoPackage:
      return "no kernel package was found; build one with //tools:gen_kernels and name it in "
             "CUTEDSL_QUANT_KERNEL_PATH, or link one of //kernels";
    case MissReason::kPackageRejected:
      return "the kernel packages found cannot be used, see the errors above; build them again "
             "with this version's //tools:gen_kernels";
    case MissReason::kArchitecture:
      return "no package has kernels for this device's architecture; build one with "
             "//tools:gen_kernels --arch";
    case MissReason::kNotPackaged:
      return "the packages lack this kernel; build it with //tools:gen_kernels --configs, or "
             "compile on first use with NVTE_ENABLE_CUTEDSL_QUANT_BACKEND=1";
    case MissReason::kNoFactory:
      return "nobody compiles kernels on first use in this process; import cutedsl_quant in "
             "Python, or package the kernel with //tools:gen_kernels";
    case MissReason::kCompileFailed:
      return "the kernel did not compile; see the error above, and call SetBackendMode to try "
             "again";
    case MissReason::kLaunchFailed:
      return "the kernel refused its arguments or did not launch; please report the error above";
  }
  return "";
}

}  // namespace

void WarnNotChosen(const QuantizeConfig& config, Backend served_by, MissReason reason) {
  if (!GetEnvironment().warn_if_not_chosen) return;
  static std::mutex mutex;
  static auto* const warned = new std::set<std::pair<MissReason, uint32_t>>;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!warned->emplace(reason, config.Id()).second) return;
  // In host memory, nothing that is said of the kernels would help.
  const MissReason cure = served_by == Backend::kReference ? MissReason::kHostTensor : reason;
  std::fprintf(stderr, "cutedsl_quant: %s was served by %s (%s): %s\n", config.Name().c_str(),
               BackendName(served_by), MissReasonName(reason), Advice(cure));
}

}  // namespace cutedsl_quant
