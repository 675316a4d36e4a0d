// The exports with two more, for tests from Python: kernels for host tensors.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstring>
#include <string>
#include <vector>

#include "ffi_bridge/cutedsl_provider.h"

namespace cutedsl_quant {
namespace {

namespace ffi = tvm::ffi;

// From now on host tensors are served by the packages under `paths`, and by compiled kernels.
void ServeHostTensors(ffi::Array<ffi::String> paths) {
  CutedslProvider::Options options;
  options.search = PackageSearch{{}, /*linked=*/false, /*beside=*/{}};
  for (const ffi::String& path : paths) options.search->paths.push_back(path);
  options.serve_host_tensors = true;
  SetKernelProvider(new CutedslProvider(options));  // for good, as callers may still use it
}

// A kernel that fills the rowwise data with `mark`.
ffi::Function MarkingKernel(int64_t mark) {
  return ffi::Function::FromPacked([mark](const ffi::AnyView* args, int32_t, ffi::Any*) {
    const auto data = args[2].cast<ffi::TensorView>();
    std::memset(data.data_ptr(), static_cast<int>(mark), static_cast<size_t>(data.numel()));
  });
}

}  // namespace
}  // namespace cutedsl_quant

TVM_FFI_DLL_EXPORT_TYPED_FUNC(serve_host_tensors, cutedsl_quant::ServeHostTensors)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(marking_kernel, cutedsl_quant::MarkingKernel)
