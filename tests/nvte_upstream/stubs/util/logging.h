// The checks that the tests make, without the libraries that TransformerEngine's header of this
// name includes.
#ifndef CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_UTIL_LOGGING_H_
#define CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_UTIL_LOGGING_H_

#include <cuda_runtime_api.h>

#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>

template <typename... Parts>
[[noreturn]] void StubFail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw std::runtime_error(message.str());
}

#define NVTE_ERROR(...) StubFail(__FILE__, ":", __LINE__, ": ", __VA_ARGS__)

#define NVTE_CHECK(condition, ...)                                                       \
  do {                                                                                   \
    if (!(condition)) StubFail(__FILE__, ":", __LINE__, ": " #condition, ##__VA_ARGS__); \
  } while (false)

#define NVTE_CHECK_CUDA(call)                                                    \
  do {                                                                           \
    const cudaError_t stub_status = (call);                                      \
    if (stub_status != cudaSuccess) NVTE_ERROR(cudaGetErrorString(stub_status)); \
  } while (false)

#endif  // CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_UTIL_LOGGING_H_
