// What the benchmark is asked to measure.
#ifndef CUTEDSL_QUANT_TOOLS_BENCH_OPTIONS_H_
#define CUTEDSL_QUANT_TOOLS_BENCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/config.h"
#include "cutedsl_quant/tensor.h"
#include "tools/bench/measure.h"

namespace cutedsl_quant {
namespace bench {

struct Size {
  int64_t rows;
  int64_t cols;
};

struct Directions {
  bool rowwise;
  bool colwise;
};

struct Options {
  std::vector<DType> dtypes = {DType::kBFloat16};
  std::vector<DType> fp8_dtypes = {DType::kFloat8E4M3};
  std::vector<QuantizeConfig> fusions = {QuantizeConfig()};  // their dbias, activation, derivative
  std::vector<Directions> directions = {{true, false}, {false, true}, {true, true}};
  std::vector<bool> swizzled = {false, true};
  std::vector<bool> amax = {false};
  std::vector<Size> sizes = {{128, 128},   {256, 1024},  {1024, 1024},
                             {1024, 4096}, {8192, 8192}, {32768, 14336}};
  std::vector<Backend> backends = {Backend::kCuda, Backend::kCutedsl};
  Replays replays;
  bool gpu_time = true;
  bool host_time = true;
  bool cold_start = true;
  bool help = false;
  std::string json;  // a path, or empty
  // Set in the fresh processes that the benchmark starts to measure first calls: print one time and
  // end.
  bool first_call_only = false;
};

extern const char kUsage[];

// Throws std::invalid_argument with a message for the user.
Options ParseOptions(int argc, char** argv);

// "bf16", "e4m3", "rowwise", ... as they are written on the command line.
std::string NameOf(DType dtype);
std::string NameOf(Directions directions);
std::string NameOf(Size size);
std::string LayoutName(bool swizzled);

}  // namespace bench
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TOOLS_BENCH_OPTIONS_H_
