// Makes the dispatcher ask for CuTeDSL kernels as soon as this object is part of the program.
#include "ffi_bridge/cutedsl_provider.h"

namespace cutedsl_quant {
namespace {

[[maybe_unused]] const KernelProvider* const installed = SetKernelProvider(&ProcessProvider());

}  // namespace
}  // namespace cutedsl_quant
