// The comparison that all tests on a GPU share, and what was compared.
#ifndef CUTEDSL_QUANT_TESTS_GPU_HARNESS_H_
#define CUTEDSL_QUANT_TESTS_GPU_HARNESS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "cutedsl_quant/backend.h"
#include "tests/gpu/call.h"
#include "tests/gpu/call_buffers.h"
#include "tests/gpu/closeness.h"
#include "tests/gpu/values.h"

namespace cutedsl_quant {
namespace testing {

inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
inline constexpr DType kFp8DTypes[] = {DType::kFloat8E4M3, DType::kFloat8E5M2};

// Skips, or fails, where there is no GPU, and keeps the backend mode for the next test.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

 private:
  std::optional<BackendMode> mode_;
};

// Who has to serve a call, and why not a CuTeDSL kernel.
struct Route {
  BackendMode mode;
  Backend backend;
  MissReason reason;
};

// The CUDA fallback by itself, and the dispatcher's choice. Plain casts are in every package;
// fusions are expected from CuTeDSL kernels where those are packaged.
std::vector<Route> RoutesOf(const Shape& shape, const Call& call);

// Prepares the buffers, runs `call` as `route` says and compares everything that it may have
// touched. Column sums are computed twice: they must be the same bytes. False after a failure.
bool RunAndCompare(CallBuffers& buffers, const Shape& shape, const Call& call, const Route& route,
                   const ExpectedBytes& expected, Closeness* closeness);

// What is printed when all tests have run.
void CountValueClass(ValueClass value_class);
void CountDequantization(uint64_t bytes);
void CountCloseness(DType dtype, const Closeness& closeness);

}  // namespace testing
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_GPU_HARNESS_H_
