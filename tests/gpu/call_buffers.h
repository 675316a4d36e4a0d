// Device memory for the calls of one shape and type, and the comparison of all of it with what a
// call must leave there.
#ifndef CUTEDSL_QUANT_TESTS_GPU_CALL_BUFFERS_H_
#define CUTEDSL_QUANT_TESTS_GPU_CALL_BUFFERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cutedsl_quant/kernel_provider.h"
#include "tests/gpu/call.h"
#include "tests/gpu/closeness.h"
#include "tests/gpu/expected.h"
#include "tests/gpu/gpu.h"

namespace cutedsl_quant {
namespace testing {

// The expected bytes of one direction, in every layout of its scales.
struct ExpectedDirection {
  const Quantized* quantized;
  std::vector<uint8_t> scales[std::size(kScaleLayouts)];

  ExpectedDirection(const Quantized& quantized, bool colwise, int64_t m, int64_t n);
};

// What calls leave that have the types and the fusion of one configuration.
struct ExpectedBytes {
  Expected values;
  ExpectedDirection rowwise;
  ExpectedDirection columnwise;
  std::vector<DbiasRange> dbias;

  ExpectedBytes(const QuantizeConfig& config, const void* input, const void* act_input, int64_t m,
                int64_t n);
  ExpectedBytes(const ExpectedBytes&) = delete;
  ExpectedBytes& operator=(const ExpectedBytes&) = delete;
};

class CallBuffers {
 public:
  CallBuffers(const Shape& shape, DType dtype, Device device = kDevice);

  void SetInput(const std::vector<uint8_t>& values);
  void SetActInput(const std::vector<uint8_t>& values);

  // Poisons the outputs that `call` names, and the workspace.
  void Prepare(const Call& call, float amax_start, cudaStream_t stream);
  void Launch(const Call& call, cudaStream_t stream);
  // The same call with a null workspace; empty if that describes the right one, writing nothing.
  std::string CheckWorkspaceQuery(const Call& call);
  // What the dispatcher would hand to a backend.
  KernelArgs Args(const Call& call) const;

  // Empty if memory is as it should be after `call`, else a description of what differs. Smooth
  // functions are compared closely and counted; all others bit for bit.
  std::string Check(const Call& call, const ExpectedBytes& expected, float amax_start,
                    Closeness* closeness) const;
  // Empty if the inputs still are what they were.
  std::string CheckInputs() const;

  const GpuBuffer& dbias() const { return dbias_; }

 private:
  static size_t Bytes(int64_t size) { return static_cast<size_t>(size); }

  struct Direction {
    Direction(const Shape& shape, bool colwise, Device device);
    size_t ScaleBytes() const;
    void Poison(cudaStream_t stream);
    Tensor Data(const Call& call, const Shape& shape) const;
    Tensor Scales(ScaleLayout layout) const;
    ScaleView View(ScaleLayout layout) const;

    bool colwise;
    int64_t m;
    int64_t n;
    Device device;
    GpuBuffer data;
    GpuBuffer scales;
  };

  CallTensors Tensors(const Call& call) const;
  int64_t WorkspaceRows(const QuantizeConfig& config) const;
  std::string CheckDirection(const Call& call, const Direction& direction,
                             const ExpectedDirection& expected, Closeness* closeness) const;
  std::string CheckAmax(const Call& call, float expected, float start) const;
  std::string CheckDbias(const std::vector<DbiasRange>& ranges) const;
  std::string CheckWorkspaceEnd(const Call& call) const;

  Shape shape_;
  int64_t m_;
  int64_t n_;
  DType dtype_;
  Device device_;
  std::vector<uint8_t> values_;
  std::vector<uint8_t> act_values_;
  GpuBuffer input_;
  GpuBuffer act_input_;
  Direction rowwise_;
  Direction columnwise_;
  GpuBuffer amax_;
  GpuBuffer noop_;
  GpuBuffer dbias_;
  GpuBuffer workspace_;
};

}  // namespace testing
}  // namespace cutedsl_quant

#endif  // CUTEDSL_QUANT_TESTS_GPU_CALL_BUFFERS_H_
