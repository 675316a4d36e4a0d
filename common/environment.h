// The environment variables of this library, parsed once per process; nothing else reads them.
#ifndef CUTEDSL_QUANT_COMMON_ENVIRONMENT_H_
#define CUTEDSL_QUANT_COMMON_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "cutedsl_quant/backend.h"

namespace cutedsl_quant {

struct Environment {
  // NVTE_ENABLE_CUTEDSL_QUANT_BACKEND: 0 is kOff, 1 is kJit, unset is kPackaged.
  BackendMode backend_mode = BackendMode::kPackaged;
  // NVTE_WARN_IF_CUTEDSL_BACKEND_NOT_CHOSEN: 1 says on stderr why a CuTeDSL kernel was not chosen;
  // 0 or unset does not.
  bool warn_if_not_chosen = false;
  // CUTEDSL_QUANT_KERNEL_PATH: kernel package files or folders of them, separated by colons.
  std::vector<std::string> kernel_path;
};

// Looks a variable up by its name; null if it is unset.
using EnvironmentLookup = const char* (*)(const char* name);

// An empty value counts as unset. So does a value that is not accepted, and a line about it is
// added to `complaints`.
Environment ParseEnvironment(EnvironmentLookup lookup, std::vector<std::string>* complaints);

// The process's own environment, parsed by the first call, which also writes the complaints to
// stderr.
const Environment& GetEnvironment();

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_COMMON_ENVIRONMENT_H_
