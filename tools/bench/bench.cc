// The benchmark: how near casts come to the speed of memory, what a call costs the host, and what
// the first one costs.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/cuda_check.h"
#include "common/numerics.h"
#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/quantize.h"
#include "tools/bench/bare_launch.h"
#include "tools/bench/measure.h"
#include "tools/bench/options.h"

#define CUTEDSL_QUANT_CUDA(call) ::cutedsl_quant::CheckCuda(call, #call)

namespace cutedsl_quant {
namespace bench {
namespace {

constexpr Device kDevice = {DeviceType::kCuda, 0};

struct Cast {
  DType dtype = DType::kBFloat16;
  DType fp8_dtype = DType::kFloat8E4M3;
  Directions directions = {true, true};
  bool swizzled = false;
  bool amax = false;
  Size size = {};
};

int64_t ElementSize(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }
int64_t Elements(Size size) { return size.rows * size.cols; }
int64_t InputBytes(DType dtype, Size size) { return Elements(size) * ElementSize(dtype); }

// The input read once, outputs and scales written once.
int64_t BytesMoved(const Cast& cast) {
  const auto [rows, cols] = cast.size;
  int64_t bytes = InputBytes(cast.dtype, cast.size);
  if (cast.directions.rowwise) bytes += Elements(cast.size) + rows * numerics::CeilDiv(cols, 32);
  if (cast.directions.colwise) bytes += Elements(cast.size) + numerics::CeilDiv(rows, 32) * cols;
  return bytes;
}

// Memory for casts of one size and type, several times over.
class BufferSets {
 public:
  BufferSets(DType dtype, Size size, int64_t l2_bytes) : dtype_(dtype), size_(size) {
    const auto scale_bytes = [](numerics::ScaleShape shape) { return shape.rows * shape.cols; };
    const int64_t parts[kParts] = {
        InputBytes(dtype, size),
        InputBytes(dtype, size),  // where copies go
        Elements(size),
        Elements(size),
        scale_bytes(numerics::PaddedRowwiseScaleShape(size.rows, size.cols)),
        scale_bytes(numerics::PaddedColumnwiseScaleShape(size.rows, size.cols)),
        sizeof(float),
    };
    for (int part = 0; part < kParts; ++part) {
      offsets_[part] = set_bytes_;
      set_bytes_ += numerics::RoundUp(parts[part], 256);
    }
    // Between two uses of a set, every kernel and copy moves four times what the cache holds.
    const int64_t least_moved = InputBytes(dtype, size) + Elements(size);
    count_ =
        static_cast<int>(std::max<int64_t>(2, numerics::CeilDiv(4 * l2_bytes, least_moved) + 1));
    CUTEDSL_QUANT_CUDA(
        cudaMalloc(reinterpret_cast<void**>(&base_), static_cast<size_t>(set_bytes_ * count_)));
    FillInputs();
  }
  ~BufferSets() { cudaFree(base_); }
  BufferSets(const BufferSets&) = delete;
  BufferSets& operator=(const BufferSets&) = delete;

  int count() const { return count_; }

  // Enough of them for a millisecond or more, each set as often as another.
  int Launches(int64_t bytes_moved) const {
    const int64_t wanted = std::min<int64_t>(4'000'000'000 / bytes_moved + 1, 1000);
    return static_cast<int>(numerics::RoundUp(wanted, count_));
  }

  void Run(const Cast& cast, int set, cudaStream_t stream) const {
    const auto [rows, cols] = size_;
    QuantizedTensor output;
    output.swizzled_scales = cast.swizzled;
    const auto scales = [&](int part, numerics::ScaleShape shape) {
      return Tensor(At(set, part), DType::kFloat8E8M0, kDevice, {shape.rows, shape.cols});
    };
    if (cast.directions.rowwise) {
      output.rowwise_data = Tensor(At(set, kRowwise), cast.fp8_dtype, kDevice, {rows, cols});
      output.rowwise_scale_inv =
          scales(kRowwiseScales, numerics::PaddedRowwiseScaleShape(rows, cols));
    }
    if (cast.directions.colwise) {
      output.columnwise_data = Tensor(At(set, kColumnwise), cast.fp8_dtype, kDevice, {rows, cols});
      output.columnwise_scale_inv =
          scales(kColumnwiseScales, numerics::PaddedColumnwiseScaleShape(rows, cols));
    }
    if (cast.amax) output.amax = Tensor(At(set, kAmax), DType::kFloat32, kDevice, {1});
    Quantize(Tensor(At(set, kInput), dtype_, kDevice, {rows, cols}), output, QuantizeOptions(),
             stream);
  }

  void Copy(int set, cudaStream_t stream) const {
    CUTEDSL_QUANT_CUDA(cudaMemcpyAsync(At(set, kCopy), At(set, kInput),
                                       static_cast<size_t>(InputBytes(dtype_, size_)),
                                       cudaMemcpyDeviceToDevice, stream));
  }

 private:
  enum Part {
    kInput,
    kCopy,
    kRowwise,
    kColumnwise,
    kRowwiseScales,
    kColumnwiseScales,
    kAmax,
    kParts
  };

  void* At(int set, int part) const { return base_ + set * set_bytes_ + offsets_[part]; }

  void FillInputs() const {
    // Random bits, but for exponents that stay near 1.
    std::vector<uint32_t> words(1 << 20);
    uint64_t state = 1;
    for (uint32_t& word : words) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const uint32_t bits = static_cast<uint32_t>(state >> 32);
      word = dtype_ == DType::kFloat16 ? (bits & 0x83FF83FFu) | 0x38003800u
                                       : (bits & 0x807F807Fu) | 0x3F003F00u;
    }
    const int64_t chunk = static_cast<int64_t>(words.size() * sizeof(words[0]));
    const int64_t bytes = InputBytes(dtype_, size_);
    for (int set = 0; set < count_; ++set) {
      for (int64_t at = 0; at < bytes; at += chunk) {
        CUTEDSL_QUANT_CUDA(cudaMemcpy(static_cast<char*>(At(set, kInput)) + at, words.data(),
                                      static_cast<size_t>(std::min(chunk, bytes - at)),
                                      cudaMemcpyHostToDevice));
      }
      CUTEDSL_QUANT_CUDA(cudaMemset(At(set, kAmax), 0, sizeof(float)));
    }
  }

  DType dtype_;
  Size size_;
  int64_t offsets_[kParts];
  int64_t set_bytes_ = 0;
  int count_ = 0;
  char* base_ = nullptr;
};

// ---- Results as JSON objects: names and values, already in JSON's spelling.

class Record {
 public:
  Record& Add(const char* name, const std::string& value) { return AddRaw(name, Quoted(value)); }
  Record& Add(const char* name, double value) {
    char text[32];
    snprintf(text, sizeof(text), "%.6g", value);
    return AddRaw(name, text);
  }
  Record& Add(const char* name, int64_t value) { return AddRaw(name, std::to_string(value)); }
  Record& Add(const char* name, bool value) { return AddRaw(name, value ? "true" : "false"); }
  Record& Add(const Times& times, const std::string& unit) {
    return Add(("median_" + unit).c_str(), times.median)
        .Add(("min_" + unit).c_str(), times.min)
        .Add(("max_" + unit).c_str(), times.max);
  }
  std::string Json() const { return "{" + fields_ + "}"; }

 private:
  static std::string Quoted(const std::string& text) {
    std::string quoted = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    return quoted + "\"";
  }
  Record& AddRaw(const char* name, const std::string& value) {
    fields_ += (fields_.empty() ? "\"" : ", \"") + std::string(name) + "\": " + value;
    return *this;
  }
  std::string fields_;
};

struct Results {
  Record machine;
  std::vector<Record> gpu;
  std::vector<Record> host;
  std::vector<Record> cold;
};

void WriteJson(const std::string& path, const Results& results) {
  std::ofstream file(path);
  const auto list = [&](const char* name, const std::vector<Record>& records) {
    file << ",\n\"" << name << "\": [";
    for (size_t i = 0; i < records.size(); ++i) file << (i ? ",\n  " : "\n  ") << records[i].Json();
    file << "\n]";
  };
  file << "{\"machine\": " << results.machine.Json();
  list("gpu_time", results.gpu);
  list("host_time", results.host);
  list("first_call", results.cold);
  file << "}\n";
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

// ---- The parts of a run.

// The CUDA kernels serve whatever the CuTeDSL kernels are not asked for.
void SetMode(Backend backend) {
  SetBackendMode(backend == Backend::kCuda ? BackendMode::kOff : BackendMode::kPackaged);
}

// Has `backend` serve the calls from now on; empty, or why it does not serve `cast`.
std::string Select(Backend backend, const Cast& cast, const BufferSets& buffers) {
  SetMode(backend);
  ResetStats();
  buffers.Run(cast, 0, nullptr);
  CUTEDSL_QUANT_CUDA(cudaStreamSynchronize(nullptr));
  const Stats stats = GetStats();
  if (stats.calls[static_cast<size_t>(backend)] == 1) return "";
  for (size_t reason = 0; reason < kNumMissReasons; ++reason) {
    if (stats.misses[reason] != 0) return MissReasonName(static_cast<MissReason>(reason));
  }
  return "served by another backend";
}

Record DescribeMachine(const cudaDeviceProp& properties) {
  int driver = 0;
  int runtime = 0;
  CUTEDSL_QUANT_CUDA(cudaDriverGetVersion(&driver));
  CUTEDSL_QUANT_CUDA(cudaRuntimeGetVersion(&runtime));
  const auto version = [](int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
  };
  const std::string capability =
      std::to_string(properties.major) + "." + std::to_string(properties.minor);
  printf("%s, compute capability %s, %d SMs, L2 cache %.0f MB, driver for CUDA %s, runtime %s\n",
         properties.name, capability.c_str(), properties.multiProcessorCount,
         properties.l2CacheSize * 1e-6, version(driver).c_str(), version(runtime).c_str());
  return Record()
      .Add("gpu", std::string(properties.name))
      .Add("compute_capability", capability)
      .Add("sms", int64_t{properties.multiProcessorCount})
      .Add("l2_bytes", int64_t{properties.l2CacheSize})
      .Add("driver_cuda", version(driver))
      .Add("runtime_cuda", version(runtime));
}

void MeasureGpuTimes(const Options& options, int64_t l2_bytes, Results& results) {
  printf(
      "\nGPU time of one launch, from graph replays; the L2 cache is cold. Bytes: input read once, "
      "outputs\n"
      "and scales written once. Share: of the rate of a device-to-device copy of the input.\n\n");
  printf("%-12s %-5s %-5s %-11s %-9s %-5s %-8s %10s %21s %8s %7s\n", "size", "dtype", "fp8",
         "direction", "layout", "amax", "backend", "median us", "min .. max us", "TB/s", "share");
  for (DType dtype : options.dtypes) {
    for (const Size& size : options.sizes) {
      const BufferSets buffers(dtype, size, l2_bytes);
      double copy_rate = 0;
      const auto report = [&](const Cast* cast, const char* backend, int64_t bytes,
                              const Times& times) {
        const double rate = static_cast<double>(bytes) / times.median * 1e-6;
        if (cast == nullptr) copy_rate = rate;
        const std::string fp8 = cast ? NameOf(cast->fp8_dtype) : "";
        const std::string direction = cast ? NameOf(cast->directions) : "";
        const std::string layout = cast ? LayoutName(cast->swizzled) : "";
        const bool amax = cast != nullptr && cast->amax;
        printf("%-12s %-5s %-5s %-11s %-9s %-5s %-8s %10.2f %10.2f..%9.2f %8.3f %6.1f%%\n",
               NameOf(size).c_str(), NameOf(dtype).c_str(), fp8.c_str(), direction.c_str(),
               layout.c_str(), amax ? "on" : "", backend, times.median, times.min, times.max, rate,
               100 * rate / copy_rate);
        fflush(stdout);
        results.gpu.push_back(Record()
                                  .Add("rows", size.rows)
                                  .Add("cols", size.cols)
                                  .Add("dtype", NameOf(dtype))
                                  .Add("fp8_dtype", fp8)
                                  .Add("direction", direction)
                                  .Add("layout", layout)
                                  .Add("amax", amax)
                                  .Add("backend", std::string(backend))
                                  .Add("bytes", bytes)
                                  .Add(times, "us")
                                  .Add("tb_per_s", rate)
                                  .Add("share_of_copy", rate / copy_rate));
      };
      const int64_t copied = 2 * InputBytes(dtype, size);
      report(nullptr, "copy", copied,
             MeasureGpu(buffers.count(), buffers.Launches(copied), options.replays,
                        [&](int set, cudaStream_t stream) { buffers.Copy(set, stream); }));
      for (DType fp8_dtype : options.fp8_dtypes) {
        for (const Directions& directions : options.directions) {
          for (bool swizzled : options.swizzled) {
            for (bool amax : options.amax) {
              for (Backend backend : options.backends) {
                const Cast cast = {dtype, fp8_dtype, directions, swizzled, amax, size};
                const std::string refused = Select(backend, cast, buffers);
                if (!refused.empty()) {
                  printf("%-12s %s is not measured: %s\n", NameOf(size).c_str(),
                         BackendName(backend), refused.c_str());
                  continue;
                }
                const int64_t bytes = BytesMoved(cast);
                report(&cast, BackendName(backend), bytes,
                       MeasureGpu(
                           buffers.count(), buffers.Launches(bytes), options.replays,
                           [&](int set, cudaStream_t stream) { buffers.Run(cast, set, stream); }));
              }
            }
          }
        }
      }
    }
  }
}

void MeasureHostTimes(const Options& options, Results& results) {
  printf("\nHost time of one warm call, 128x128, both directions.\n\n%-22s %10s %21s %14s\n", "",
         "median us", "min .. max us", "beyond bare");
  Cast cast;
  cast.size = {128, 128};
  const BufferSets buffers(cast.dtype, cast.size, 0);
  std::vector<std::string> names = {"bare <<<>>> launch"};
  std::vector<HostCall> calls = {{[] {}, BareLaunch}};
  for (Backend backend : options.backends) {
    const std::string refused = Select(backend, cast, buffers);
    if (!refused.empty()) {
      printf("%s is not measured: %s\n", BackendName(backend), refused.c_str());
      continue;
    }
    names.push_back(std::string("Quantize, ") + BackendName(backend));
    calls.push_back({[backend, &cast, &buffers] {
                       SetMode(backend);
                       buffers.Run(cast, 0, nullptr);  // looks the kernel up again
                     },
                     [&cast, &buffers](cudaStream_t stream) { buffers.Run(cast, 0, stream); }});
  }
  const std::vector<Times> times = MeasureHost(calls);
  for (size_t i = 0; i < names.size(); ++i) {
    const double beyond_bare = times[i].median - times[0].median;
    printf("%-22s %10.3f %10.3f..%9.3f %14.3f\n", names[i].c_str(), times[i].median, times[i].min,
           times[i].max, beyond_bare);
    results.host.push_back(
        Record().Add("name", names[i]).Add(times[i], "us").Add("beyond_bare_us", beyond_bare));
  }
}

// In a fresh process: prints the time of the first call, in ms. The CUDA context exists before.
int PrintFirstCall(const Options& options) {
  Cast cast;
  cast.size = {128, 128};
  const BufferSets buffers(cast.dtype, cast.size, 0);
  CUTEDSL_QUANT_CUDA(cudaDeviceSynchronize());
  const auto begin = std::chrono::steady_clock::now();
  const std::string refused = Select(options.backends.front(), cast, buffers);
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  if (!refused.empty()) {
    printf("%s\n", refused.c_str());
    return 1;
  }
  printf("%.6f\n", elapsed.count());
  return 0;
}

void MeasureFirstCalls(const Options& options, Results& results) {
  printf(
      "\nFirst call of a process that has a CUDA context: kernel packages are opened, the kernel "
      "is loaded, run\n"
      "and waited for.\n\n%-22s %10s %21s\n",
      "", "median ms", "min .. max ms");
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (length < 0) throw std::runtime_error("cannot read /proc/self/exe");
  self[length] = '\0';
  for (Backend backend : options.backends) {
    const std::string command =
        "'" + std::string(self) + "' --first-call-only --backend " + BackendName(backend);
    std::vector<double> ms;
    std::string failure;
    for (int i = 0; i < 5 && failure.empty(); ++i) {
      const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
      char line[256] = "";
      double value;
      if (pipe == nullptr || fgets(line, sizeof(line), pipe.get()) == nullptr ||
          sscanf(line, "%lf", &value) != 1) {
        line[strcspn(line, "\n")] = '\0';
        failure = line[0] != '\0' ? line : "the process that measures it failed";
      } else {
        ms.push_back(value);
      }
    }
    if (!failure.empty()) {
      printf("%s is not measured: %s\n", BackendName(backend), failure.c_str());
      continue;
    }
    const Times times = Summarize(ms);
    printf("%-22s %10.3f %10.3f..%9.3f\n", BackendName(backend), times.median, times.min,
           times.max);
    results.cold.push_back(
        Record().Add("backend", std::string(BackendName(backend))).Add(times, "ms"));
  }
}

int Run(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  if (options.help) {
    fputs(kUsage, stdout);
    return 0;
  }
  if (options.first_call_only) return PrintFirstCall(options);
  cudaDeviceProp properties;
  CUTEDSL_QUANT_CUDA(cudaGetDeviceProperties(&properties, 0));
  Results results;
  results.machine = DescribeMachine(properties);
  if (options.gpu_time) MeasureGpuTimes(options, properties.l2CacheSize, results);
  if (options.host_time) MeasureHostTimes(options, results);
  if (options.cold_start) MeasureFirstCalls(options, results);
  if (!options.json.empty()) WriteJson(options.json, results);
  return 0;
}

}  // namespace
}  // namespace bench
}  // namespace cutedsl_quant

int main(int argc, char** argv) {
  try {
    return cutedsl_quant::bench::Run(argc, argv);
  } catch (const std::invalid_argument& error) {
    fprintf(stderr, "bench: %s (--help lists the arguments)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fprintf(stderr, "bench: %s\n", error.what());
    return 1;
  }
}
