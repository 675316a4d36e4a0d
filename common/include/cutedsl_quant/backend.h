// Which backend serves a call: the run-time switch and the counters that say what happened.
#ifndef CUTEDSL_QUANT_BACKEND_H_
#define CUTEDSL_QUANT_BACKEND_H_

#include <cstddef>
#include <cstdint>

#include "cutedsl_quant/tensor.h"

namespace cutedsl_quant {

enum class Backend : uint8_t {
  kCutedsl = 0,    // a CuTeDSL kernel, packaged or compiled on first use
  kCuda = 1,       // the CUDA fallback
  kReference = 2,  // the CPU reference, for host tensors
};
inline constexpr size_t kNumBackends = 3;

// Why a call was not served by a CuTeDSL kernel.
enum class MissReason : uint8_t {
  kNone = 0,           // it was
  kDisabled,           // switched off by the environment or SetBackendMode
  kNoProvider,         // the program links no kernel provider (//ffi_bridge)
  kHostTensor,         // host memory: the CPU reference serves it
  kUnsupportedConfig,  // no CuTeDSL kernel exists for this combination
  kShape,              // N is not a multiple of 16
  kAlignment,          // a pointer is not aligned to 16 bytes
  kNoPackage,          // no kernel package was found
  kPackageRejected,    // packages were found but could not be used (corrupt, other version)
  kArchitecture,       // no package has kernels for this device's architecture
  kNotPackaged,        // the packages lack this configuration, and compiling on first use is off
  kNoFactory,          // compiling on first use is on, but no Python factory is registered
  kCompileFailed,      // the factory failed; tried again after SetBackendMode
  kLaunchFailed,       // the kernel refused its arguments or did not launch
};
inline constexpr size_t kNumMissReasons = 14;

// "cutedsl", "cuda", "reference".
const char* BackendName(Backend backend);
// "disabled", "no_provider", ... (the names used in warnings and by the Python statistics).
const char* MissReasonName(MissReason reason);

enum class BackendMode : uint8_t {
  kOff = 0,       // CUDA fallback only
  kPackaged = 1,  // packaged kernels where there are any (the default)
  kJit = 2,       // and compile others on first use, if a factory is registered
};

// Sets the mode for the whole process, at any time, from any thread; also forgets failures: kernels
// that did not compile and packages that could not be used are tried again. Until it is called,
// NVTE_ENABLE_CUTEDSL_QUANT_BACKEND decides: 0 is kOff, 1 is kJit, unset is kPackaged.
void SetBackendMode(BackendMode mode);
BackendMode GetBackendMode();

// Loads what the first calls on `device` would load, packaged kernels and the CUDA fallback, so
// that they may come while a stream is captured into a graph. Compiles nothing. Waits for `device`
// and takes 32 MiB of its memory meanwhile; not to be called during a capture itself. Throws
// CudaError if CUDA fails. Nothing for the host.
void PreloadKernels(Device device);

struct Stats {
  uint64_t calls[kNumBackends] = {};      // by Backend
  uint64_t misses[kNumMissReasons] = {};  // by MissReason; [kNone] stays 0
};

// Counters of the whole process since its start or the last ResetStats: one call and at most one
// miss for each Quantize of at least one element. Dequantize, for which there are no CuTeDSL
// kernels, is not counted.
Stats GetStats();
void ResetStats();

}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_BACKEND_H_
