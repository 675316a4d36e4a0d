#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cutedsl_quant/quantize.h"
#include "tools/bench/buffer_sets.h"
#include "tools/bench/floor_kernels.h"
#include "tools/bench/fusions.h"
#include "tools/bench/measure.h"
#include "tools/bench/parts.h"

namespace cutedsl_quant {
namespace bench {
namespace {

// Above this, what a launch costs is nothing beside the rest.
constexpr int64_t kSmallElements = 1 << 24;

// GPU times, in us, of other kernels in the place of those that a call launches.
struct Floors {
  double empty;
  double touch;
};

Floors MeasureFloors(const QuantizeConfig& config, const BufferSets& buffers, int launches,
                     const Replays& replays) {
  const std::vector<LaunchShape> shapes =
      KernelsOf([&](cudaStream_t stream) { buffers.Run(config, 0, stream); });
  const auto measure = [&](const auto& launch) {
    return MeasureGpu(buffers.count(), launches, replays,
                      [&](int set, cudaStream_t stream) {
                        for (const LaunchShape& shape : shapes) launch(shape, set, stream);
                      })
        .median;
  };
  return {measure([](const LaunchShape& shape, int, cudaStream_t stream) {
            LaunchEmpty(shape, stream);
          }),
          measure([&](const LaunchShape& shape, int set, cudaStream_t stream) {
            buffers.Touch(shape, set, stream);
          })};
}

class GpuTable {
 public:
  explicit GpuTable(Results& results) : results_(results) {
    printf(
        "\nGPU time of one call, from graph replays; the L2 cache is cold. Bytes: inputs read "
        "once, outputs,\n"
        "scales and column sums written once. Share: of the rate of a device-to-device copy of the "
        "input.\n"
        "Empty: kernels that do nothing, launched in the same shapes. Touch: such that read 16 "
        "bytes a thread\n"
        "and write 8.\n\n");
    printf("%-14s %-5s %-5s %-13s %-11s %-9s %-5s %-8s %10s %21s %8s %7s %9s %9s\n", "size",
           "dtype", "fp8", "fusion", "direction", "layout", "amax", "backend", "median us",
           "min .. max us", "TB/s", "share", "empty us", "touch us");
  }

  void AddCopy(DType dtype, Size size, const Times& times) {
    const int64_t bytes = 2 * InputBytes(dtype, size);
    copy_rate_ = Rate(bytes, times);
    Add(size, NameOf(dtype), "", "", "", "", false, "copy", bytes, times, std::nullopt);
  }
  void AddCall(const Case& measured, Backend backend, const Times& times,
               const std::optional<Floors>& floors) {
    const QuantizeConfig& config = measured.config;
    Add(measured.size, NameOf(config.dtype), NameOf(config.fp8_dtype), FusionName(config),
        NameOf(Directions{config.rowwise, config.colwise}), LayoutName(config.swizzled),
        config.with_amax, BackendName(backend), BytesMoved(measured), times, floors);
  }
  void AddRefused(const Case& measured, Backend backend, const std::string& reason) {
    printf("%-14s %s is not measured for %s: %s\n", NameOf(measured.size).c_str(),
           BackendName(backend), FusionName(measured.config).c_str(), reason.c_str());
  }

 private:
  static double Rate(int64_t bytes, const Times& times) {
    return static_cast<double>(bytes) / times.median * 1e-6;
  }

  void Add(Size size, const std::string& dtype, const std::string& fp8, const std::string& fusion,
           const std::string& direction, const std::string& layout, bool amax,
           const std::string& backend, int64_t bytes, const Times& times,
           const std::optional<Floors>& floors) {
    const double rate = Rate(bytes, times);
    printf("%-14s %-5s %-5s %-13s %-11s %-9s %-5s %-8s %10.2f %10.2f..%9.2f %8.3f %6.1f%%",
           NameOf(size).c_str(), dtype.c_str(), fp8.c_str(), fusion.c_str(), direction.c_str(),
           layout.c_str(), amax ? "on" : "", backend.c_str(), times.median, times.min, times.max,
           rate, 100 * rate / copy_rate_);
    if (floors) printf(" %9.2f %9.2f", floors->empty, floors->touch);
    printf("\n");
    fflush(stdout);
    Record record;
    record.Add("rows", size.rows)
        .Add("cols", size.cols)
        .Add("dtype", dtype)
        .Add("fp8_dtype", fp8)
        .Add("fusion", fusion)
        .Add("direction", direction)
        .Add("layout", layout)
        .Add("amax", amax)
        .Add("backend", backend)
        .Add("bytes", bytes)
        .Add(times, "us")
        .Add("tb_per_s", rate)
        .Add("share_of_copy", rate / copy_rate_);
    if (floors) record.Add("empty_us", floors->empty).Add("touch_us", floors->touch);
    results_.gpu.push_back(record);
  }

  Results& results_;
  double copy_rate_ = 0;
};

// The configurations to measure for one type of input.
std::vector<QuantizeConfig> ConfigsOf(const Options& options, DType dtype) {
  std::vector<QuantizeConfig> configs;
  for (DType fp8_dtype : options.fp8_dtypes) {
    for (QuantizeConfig config : options.fusions) {
      for (const Directions& directions : options.directions) {
        for (bool swizzled : options.swizzled) {
          for (bool amax : options.amax) {
            config.dtype = dtype;
            config.fp8_dtype = fp8_dtype;
            config.rowwise = directions.rowwise;
            config.colwise = directions.colwise;
            config.swizzled = swizzled;
            config.with_amax = amax;
            configs.push_back(config);
          }
        }
      }
    }
  }
  return configs;
}

// Null, after a message, where the GPU's memory does not suffice.
std::unique_ptr<const BufferSets> MakeBuffers(DType dtype, Size size, bool with_act_input,
                                              int64_t l2_bytes) {
  try {
    return std::make_unique<const BufferSets>(dtype, size, with_act_input, l2_bytes);
  } catch (const CudaError& error) {
    printf("%-14s is not measured: %s\n", NameOf(size).c_str(), error.what());
    cudaGetLastError();  // or the next launch would find it
    return nullptr;
  }
}

}  // namespace

void MeasureGpuTimes(const Options& options, int64_t l2_bytes, Results& results) {
  GpuTable table(results);
  const bool with_act_input = std::any_of(options.fusions.begin(), options.fusions.end(),
                                          [](const QuantizeConfig& f) { return f.with_dact; });
  for (DType dtype : options.dtypes) {
    for (const Size& size : options.sizes) {
      const auto buffers_or_null = MakeBuffers(dtype, size, with_act_input, l2_bytes);
      if (buffers_or_null == nullptr) continue;
      const BufferSets& buffers = *buffers_or_null;
      table.AddCopy(dtype, size,
                    MeasureGpu(buffers.count(), buffers.Launches(2 * InputBytes(dtype, size)),
                               options.replays,
                               [&](int set, cudaStream_t stream) { buffers.Copy(set, stream); }));
      for (const QuantizeConfig& config : ConfigsOf(options, dtype)) {
        for (Backend backend : options.backends) {
          const Case measured = {config, size};
          const std::string refused = Select(backend, config, buffers);
          if (!refused.empty()) {
            table.AddRefused(measured, backend, refused);
            continue;
          }
          const int launches = buffers.Launches(BytesMoved(measured));
          const Times times =
              MeasureGpu(buffers.count(), launches, options.replays,
                         [&](int set, cudaStream_t stream) { buffers.Run(config, set, stream); });
          std::optional<Floors> floors;
          if (size.rows * size.cols <= kSmallElements) {
            floors = MeasureFloors(config, buffers, launches, options.replays);
          }
          table.AddCall(measured, backend, times, floors);
        }
      }
    }
  }
}

}  // namespace bench
}  // namespace cutedsl_quant
