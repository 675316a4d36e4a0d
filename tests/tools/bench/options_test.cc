#include "tools/bench/options.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace cutedsl_quant {
namespace bench {
namespace {

Options Parse(std::vector<std::string> arguments) {
  std::vector<char*> argv = {const_cast<char*>("bench")};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return ParseOptions(static_cast<int>(argv.size()), argv.data());
}

// Finds a list that is cut at the wrong comma, "all" that is not all, and a value that is taken for
// the next flag.
TEST(OptionsTest, ListsAndBothSpellings) {
  const Options options = Parse({"--sizes", "1x2,30x40", "--dtype=fp32,bf16", "--direction", "all",
                                 "--layout=swizzled", "--amax=all", "--backend", "cuda",
                                 "--replays=3", "--rest=50", "--only", "gpu", "--json", "x.json"});
  ASSERT_EQ(options.sizes.size(), 2u);
  EXPECT_EQ(NameOf(options.sizes[1]), "30x40");
  EXPECT_EQ(options.dtypes, (std::vector<DType>{DType::kFloat32, DType::kBFloat16}));
  ASSERT_EQ(options.directions.size(), 3u);
  EXPECT_EQ(NameOf(options.directions[0]), "rowwise");
  EXPECT_EQ(NameOf(options.directions[2]), "both");
  EXPECT_EQ(options.swizzled, std::vector<bool>{true});
  EXPECT_EQ(options.amax, (std::vector<bool>{false, true}));
  EXPECT_EQ(options.backends, std::vector<Backend>{Backend::kCuda});
  EXPECT_EQ(options.replays.count, 3);
  EXPECT_EQ(options.replays.rest_ms, 50);
  EXPECT_TRUE(options.gpu_time);
  EXPECT_FALSE(options.host_time);
  EXPECT_FALSE(options.cold_start);
  EXPECT_EQ(options.json, "x.json");
}

// Finds a fusion that cannot be named, or whose name stands for another one.
TEST(OptionsTest, Fusions) {
  const Options options = Parse({"--fusion", "none,dbias,gelu,dsilu,dbias_dgelu"});
  ASSERT_EQ(options.fusions.size(), 5u);
  EXPECT_EQ(options.fusions[0].activation, Activation::kNone);
  EXPECT_TRUE(options.fusions[1].with_dbias);
  EXPECT_TRUE(options.fusions[2].with_act);
  EXPECT_TRUE(options.fusions[3].with_dact);
  EXPECT_TRUE(options.fusions[4].with_dbias && options.fusions[4].with_dact);
  EXPECT_EQ(options.fusions[4].activation, Activation::kDGelu);
  EXPECT_EQ(Parse({"--fusion=all"}).fusions.size(), 17u);
}

// Finds sizes that do not double.
TEST(OptionsTest, Scaling) {
  const Options options = Parse({"--scaling"});
  ASSERT_EQ(options.sizes.size(), 14u);
  int64_t elements = int64_t{1} << 20;
  for (const Size& size : options.sizes) {
    EXPECT_EQ(size.rows * size.cols, elements);
    elements *= 2;
  }
}

// Finds bad arguments that are measured instead of refused.
TEST(OptionsTest, RefusesWhatItDoesNotKnow) {
  for (const char* argument :
       {"--sizes=12", "--sizes=0x5", "--sizes=4x", "--sizes=4x5x6", "--dtype=int8",
        "--fusion=dbias_gelu", "--dtype=", "--only=all", "--replays=-1", "--replays=many",
        "--json=", "--verbose", "8192x8192"}) {
    EXPECT_THROW(Parse({argument}), std::invalid_argument) << argument;
  }
}

}  // namespace
}  // namespace bench
}  // namespace cutedsl_quant
