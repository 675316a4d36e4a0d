// Grids of the CUDA fallback.
#include <gtest/gtest.h>

#include <string>

#include "common/cuda/launch.h"
#include "tests/common/messages.h"

namespace cutedsl_quant {
namespace cuda {
namespace {

// Catches a grid that is cut to 32 bits, so that most of a tensor is not written.
TEST(CudaLaunchTest, GridsAreWholeOrErrors) {
  EXPECT_EQ(Grid(1).x, 1u);
  EXPECT_EQ(Grid(0x7FFFFFFF).x, 0x7FFFFFFFu);
  for (const int64_t blocks : {int64_t{0x80000000}, (int64_t{1} << 32) + 32}) {
    ExpectPieces(MessageOf([&] { Grid(blocks); }),
                 {"2147483647 blocks", std::to_string(blocks).c_str()});
  }
}

}  // namespace
}  // namespace cuda
}  // namespace cutedsl_quant
