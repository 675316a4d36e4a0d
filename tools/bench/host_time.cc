#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/buffer_sets.h"
#include "tools/bench/floor_kernels.h"
#include "tools/bench/fusions.h"
#include "tools/bench/measure.h"
#include "tools/bench/parts.h"
#include "transformer_engine/cast.h"
#include "transformer_engine/transformer_engine.h"

namespace cutedsl_quant {
namespace bench {
namespace {

using transformer_engine::TensorWrapper;

constexpr Size kSize = {128, 128};

TensorWrapper& Set(TensorWrapper& tensor, NVTETensorParam param, const Tensor& view) {
  if (!view.present()) return tensor;
  const std::vector<size_t> shape(view.shape, view.shape + view.ndim);
  return tensor.set_parameter(param, view.data, static_cast<transformer_engine::DType>(view.dtype),
                              shape);
}

// Handles of the tensors of a call.
struct NvteTensors {
  TensorWrapper input;
  TensorWrapper output{NVTE_MXFP8_1D_SCALING};
  TensorWrapper dbias;
  TensorWrapper workspace;

  explicit NvteTensors(const CallTensors& tensors) {
    Set(input, kNVTERowwiseData, tensors.input);
    Set(dbias, kNVTERowwiseData, tensors.dbias);
    Set(workspace, kNVTERowwiseData, tensors.workspace);
    Set(output, kNVTERowwiseData, tensors.output.rowwise_data);
    Set(output, kNVTERowwiseScaleInv, tensors.output.rowwise_scale_inv);
    Set(output, kNVTEColumnwiseData, tensors.output.columnwise_data);
    Set(output, kNVTEColumnwiseScaleInv, tensors.output.columnwise_scale_inv);
    output.set_with_gemm_swizzled_scales(tensors.output.swizzled_scales);
  }
};

struct NamedCall {
  std::string name;
  std::string api;
  std::string fusion;
  std::string backend;
  int kernels;
  HostCall call;
};

// Calls of the native API for each fusion by each backend that serves it, and of nvte_quantize and
// nvte_quantize_dbias.
std::vector<NamedCall> MakeCalls(const Options& options, const BufferSets& buffers) {
  std::vector<NamedCall> calls;
  for (QuantizeConfig config : options.fusions) {
    config.rowwise = config.colwise = true;
    const std::string fusion = FusionName(config);
    const bool plain = fusion == "none";
    for (Backend backend : options.backends) {
      const std::string refused = Select(backend, config, buffers);
      if (!refused.empty()) {
        printf("%s is not measured for %s: %s\n", BackendName(backend), fusion.c_str(),
               refused.c_str());
        continue;
      }
      const std::string suffix = std::string(", ") + BackendName(backend);
      const int kernels = static_cast<int>(
          KernelsOf([&](cudaStream_t stream) { buffers.Run(config, 0, stream); }).size());
      const auto add = [&](const char* api, const std::string& name,
                           const std::function<void(cudaStream_t)>& call) {
        const auto prepare = [backend, call] {
          SetMode(backend);
          call(nullptr);  // looks the kernel up again
        };
        calls.push_back(
            {name + suffix, api, fusion, BackendName(backend), kernels, {prepare, call}});
      };
      const auto tensors = std::make_shared<CallTensors>(buffers.Tensors(config, 0));
      add("native", plain ? "Quantize" : "native " + fusion,
          [config, tensors](cudaStream_t stream) { RunCall(config, *tensors, stream); });
      const auto handles = std::make_shared<NvteTensors>(*tensors);
      if (plain) {
        add("nvte", "nvte_quantize", [handles](cudaStream_t stream) {
          nvte_quantize(handles->input.data(), handles->output.data(), stream);
        });
      } else if (fusion == "dbias") {
        add("nvte", "nvte_quantize_dbias", [handles](cudaStream_t stream) {
          nvte_quantize_dbias(handles->input.data(), handles->output.data(), handles->dbias.data(),
                              handles->workspace.data(), stream);
        });
      }
    }
  }
  return calls;
}

}  // namespace

void MeasureHostTimes(const Options& options, Results& results) {
  printf(
      "\nHost time of one warm call, %s, both directions. Beyond bare: what is left when each of "
      "its\nkernels costs what a bare launch does.\n\n%-32s %10s %21s %8s %14s\n",
      NameOf(kSize).c_str(), "", "median us", "min .. max us", "kernels", "beyond bare");
  const BufferSets buffers(QuantizeConfig().dtype, kSize, true, 0);
  std::vector<NamedCall> calls = {
      {"bare <<<>>> launch",
       "",
       "",
       "",
       1,
       {[] {}, [](cudaStream_t stream) { LaunchEmpty(LaunchShape(), stream); }}}};
  for (NamedCall& call : MakeCalls(options, buffers)) calls.push_back(std::move(call));
  std::vector<HostCall> host_calls;
  for (const NamedCall& call : calls) host_calls.push_back(call.call);
  const std::vector<Times> times = MeasureHost(host_calls);
  for (size_t i = 0; i < calls.size(); ++i) {
    const double beyond_bare = times[i].median - calls[i].kernels * times[0].median;
    printf("%-32s %10.3f %10.3f..%9.3f %8d %14.3f\n", calls[i].name.c_str(), times[i].median,
           times[i].min, times[i].max, calls[i].kernels, beyond_bare);
    results.host.push_back(Record()
                               .Add("name", calls[i].name)
                               .Add("api", calls[i].api)
                               .Add("fusion", calls[i].fusion)
                               .Add("backend", calls[i].backend)
                               .Add("kernels", int64_t{calls[i].kernels})
                               .Add(times[i], "us")
                               .Add("beyond_bare_us", beyond_bare));
  }
}

}  // namespace bench
}  // namespace cutedsl_quant
