// Which kernels of the CUDA fallback are loaded in advance: all that this program registers when it
// starts. Needs no GPU: two functions of the CUDA runtime are replaced (the linker's --wrap).
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "common/cuda/preload.h"

namespace {

// Names of kernels by the address of their host function.
std::map<const void*, std::string>& Registered() {
  static std::map<const void*, std::string> kernels;
  return kernels;
}

std::set<const void*>& Loaded() {
  static std::set<const void*> kernels;
  return kernels;
}

}  // namespace

extern "C" {

void __real___cudaRegisterFunction(void** handle, const char* host_function, char* device_function,
                                   const char* device_name, int thread_limit, uint3* thread_id,
                                   uint3* block_id, dim3* block_dim, dim3* grid_dim,
                                   int* warp_size);

void __wrap___cudaRegisterFunction(void** handle, const char* host_function, char* device_function,
                                   const char* device_name, int thread_limit, uint3* thread_id,
                                   uint3* block_id, dim3* block_dim, dim3* grid_dim,
                                   int* warp_size) {
  Registered().emplace(host_function, device_name);
  __real___cudaRegisterFunction(handle, host_function, device_function, device_name, thread_limit,
                                thread_id, block_id, block_dim, grid_dim, warp_size);
}

cudaError_t __wrap_cudaFuncGetAttributes(cudaFuncAttributes*, const void* function) {
  Loaded().insert(function);
  return cudaSuccess;
}

}  // extern "C"

namespace cutedsl_quant {
namespace {

// Catches a kernel that the enumeration does not reach, and a launch instead of a load (which would
// fail without a GPU).
TEST(CudaPreloadTest, LoadsEveryKernel) {
  cuda::Preload();
  EXPECT_GT(Registered().size(), 100u);
  for (const auto& [function, name] : Registered()) EXPECT_EQ(Loaded().count(function), 1u) << name;
}

}  // namespace
}  // namespace cutedsl_quant
