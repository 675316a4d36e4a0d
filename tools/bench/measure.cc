#include "tools/bench/measure.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "common/cuda_check.h"

#define CUTEDSL_QUANT_CUDA(call) ::cutedsl_quant::CheckCuda(call, #call)

namespace cutedsl_quant {
namespace bench {

Times Summarize(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front(), times.back()};
}

Times MeasureGpu(int num_sets, int launches, const Replays& replays,
                 const std::function<void(int, cudaStream_t)>& launch) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaEvent_t begin, end;
  CUTEDSL_QUANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUTEDSL_QUANT_CUDA(cudaEventCreate(&begin));
  CUTEDSL_QUANT_CUDA(cudaEventCreate(&end));
  launch(0, stream);  // loads the kernel, which a capture could not
  CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));

  CUTEDSL_QUANT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < launches; ++i) launch(i % num_sets, stream);
  CUTEDSL_QUANT_CUDA(cudaStreamEndCapture(stream, &graph));
  CUTEDSL_QUANT_CUDA(cudaGraphInstantiate(&executable, graph, 0));

  std::this_thread::sleep_for(std::chrono::milliseconds(replays.rest_ms));
  std::vector<double> us;
  for (int i = -1; i < replays.count; ++i) {  // the first is a warm-up
    CUTEDSL_QUANT_CUDA(cudaEventRecord(begin, stream));
    CUTEDSL_QUANT_CUDA(cudaGraphLaunch(executable, stream));
    CUTEDSL_QUANT_CUDA(cudaEventRecord(end, stream));
    CUTEDSL_QUANT_CUDA(cudaEventSynchronize(end));
    float ms;
    CUTEDSL_QUANT_CUDA(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 0) us.push_back(ms * 1e3 / launches);
  }
  CUTEDSL_QUANT_CUDA(cudaGraphExecDestroy(executable));
  CUTEDSL_QUANT_CUDA(cudaGraphDestroy(graph));
  CUTEDSL_QUANT_CUDA(cudaEventDestroy(begin));
  CUTEDSL_QUANT_CUDA(cudaEventDestroy(end));
  CUTEDSL_QUANT_CUDA(cudaStreamDestroy(stream));
  return Summarize(us);
}

std::vector<LaunchShape> KernelsOf(const std::function<void(cudaStream_t)>& call) {
  // The runtime knows its own kernels only; the driver knows all.
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  CUTEDSL_QUANT_CUDA(cudaGetDriverEntryPointByVersion("cuGraphKernelNodeGetParams", &entry, 12000,
                                                      cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) {
    throw std::runtime_error("the driver has no cuGraphKernelNodeGetParams");
  }
  const auto get_params = reinterpret_cast<PFN_cuGraphKernelNodeGetParams_v12000>(entry);

  cudaStream_t stream;
  cudaGraph_t graph;
  CUTEDSL_QUANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  call(stream);  // loads the kernels, which a capture could not
  CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));
  CUTEDSL_QUANT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  call(stream);
  CUTEDSL_QUANT_CUDA(cudaStreamEndCapture(stream, &graph));
  size_t num_nodes = 0;
  CUTEDSL_QUANT_CUDA(cudaGraphGetNodes(graph, nullptr, &num_nodes));
  std::vector<cudaGraphNode_t> nodes(num_nodes);
  CUTEDSL_QUANT_CUDA(cudaGraphGetNodes(graph, nodes.data(), &num_nodes));
  std::vector<LaunchShape> shapes;
  for (cudaGraphNode_t node : nodes) {
    CUDA_KERNEL_NODE_PARAMS params;
    if (get_params(node, &params) != CUDA_SUCCESS) continue;  // not a kernel
    shapes.push_back({dim3(params.gridDimX, params.gridDimY, params.gridDimZ),
                      dim3(params.blockDimX, params.blockDimY, params.blockDimZ),
                      params.sharedMemBytes});
  }
  CUTEDSL_QUANT_CUDA(cudaGraphDestroy(graph));
  CUTEDSL_QUANT_CUDA(cudaStreamDestroy(stream));
  return shapes;
}

std::vector<Times> MeasureHost(const std::vector<HostCall>& calls) {
  using Clock = std::chrono::steady_clock;
  constexpr int kBatches = 201;
  constexpr int kCalls = 100;  // far less than a stream queues before launches wait
  cudaStream_t stream;
  CUTEDSL_QUANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<std::vector<double>> us(calls.size());
  for (int batch = -3; batch < kBatches; ++batch) {  // the first are warm-ups
    for (size_t c = 0; c < calls.size(); ++c) {
      calls[c].prepare();
      const Clock::time_point begin = Clock::now();
      for (int i = 0; i < kCalls; ++i) calls[c].call(stream);
      const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
      CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(stream));
      if (batch >= 0) us[c].push_back(elapsed.count() / kCalls);
    }
  }
  CUTEDSL_QUANT_CUDA(cudaStreamDestroy(stream));
  std::vector<Times> times;
  for (const std::vector<double>& of_call : us) times.push_back(Summarize(of_call));
  return times;
}

}  // namespace bench
}  // namespace cutedsl_quant
