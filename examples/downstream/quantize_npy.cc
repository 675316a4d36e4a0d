// Quantizes a matrix in a .npy file to MXFP8 and says which backend did it. See README.md.
#include <cuda_runtime_api.h>

#include <cstring>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

#include "cutedsl_quant/backend.h"
#include "cutedsl_quant/quantize.h"
#include "npy.h"

namespace {

using namespace cutedsl_quant;  // what this program is about

constexpr char kUsage[] =
    "usage: quantize_npy INPUT.npy OUTPUT [--columnwise] [--bf16]\n"
    "  writes OUTPUT.data.npy (FP8 e4m3 codes) and OUTPUT.scales.npy (E8M0 exponents), both uint8\n"
    "  INPUT       float32 or float16 matrix, or uint16 with --bf16\n"
    "  --columnwise  one scale per 32 rows of a column instead of 32 columns of a row\n"
    "  --bf16      INPUT holds the bits of bfloat16 numbers as uint16\n";

struct Options {
  std::string input;
  std::string output;
  bool columnwise = false;
  bool bf16 = false;
};

Options Parse(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--columnwise") {
      options.columnwise = true;
    } else if (argument == "--bf16") {
      options.bf16 = true;
    } else {
      names.push_back(argument);
    }
  }
  if (names.size() != 2 || names[0][0] == '-' || names[1][0] == '-')
    throw std::invalid_argument(kUsage);
  options.input = names[0];
  options.output = names[1];
  return options;
}

DType InputType(const NpyMatrix& matrix, bool bf16) {
  if (bf16 && matrix.dtype == "<u2") return DType::kBFloat16;
  if (!bf16 && matrix.dtype == "<f4") return DType::kFloat32;
  if (!bf16 && matrix.dtype == "<f2") return DType::kFloat16;
  throw std::invalid_argument("dtype " + matrix.dtype + " is not served" +
                              (bf16 ? " with --bf16" : ""));
}

void Check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

Device ChooseDevice() {
  int count = 0;
  const bool has_gpu = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  return {has_gpu ? DeviceType::kCuda : DeviceType::kCpu, 0};
}

// Bytes that a function on `device` can work on: the host's own, or a copy in device memory.
class Buffer {
 public:
  Buffer(std::vector<uint8_t>& host, Device device) : host_(host), data_(host.data()) {
    if (device.type == DeviceType::kCpu) return;
    Check(cudaMalloc(&device_copy_, host.size()));
    data_ = device_copy_;
    Check(cudaMemcpy(device_copy_, host.data(), host.size(), cudaMemcpyHostToDevice));
  }
  ~Buffer() { cudaFree(device_copy_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() { return data_; }
  void CopyToHost() {
    if (device_copy_)
      Check(cudaMemcpy(host_.data(), device_copy_, host_.size(), cudaMemcpyDeviceToHost));
  }

 private:
  std::vector<uint8_t>& host_;
  void* data_;
  void* device_copy_ = nullptr;
};

NpyMatrix Bytes(int64_t rows, int64_t cols) {
  return {"|u1", rows, cols, std::vector<uint8_t>(rows * cols)};
}

// "cutedsl", or "cuda (no_package)": who served the only call so far, and why not a CuTeDSL kernel.
std::string ServedBy() {
  const Stats stats = GetStats();
  std::string text;
  for (size_t i = 0; i < kNumBackends; ++i) {
    if (stats.calls[i]) text += BackendName(static_cast<Backend>(i));
  }
  for (size_t i = 0; i < kNumMissReasons; ++i) {
    if (stats.misses[i])
      text += std::string(" (") + MissReasonName(static_cast<MissReason>(i)) + ")";
  }
  return text;
}

void Run(const Options& options) {
  NpyMatrix input = ReadNpy(options.input);
  const DType dtype = InputType(input, options.bf16);
  const int64_t m = input.rows, n = input.cols;
  NpyMatrix data = Bytes(m, n);
  NpyMatrix scales = options.columnwise ? Bytes((m + 31) / 32, n) : Bytes(m, (n + 31) / 32);

  const Device device = ChooseDevice();
  Buffer input_buffer(input.bytes, device), data_buffer(data.bytes, device),
      scales_buffer(scales.bytes, device);
  const Tensor data_tensor(data_buffer.data(), DType::kFloat8E4M3, device, {m, n});
  const Tensor scales_tensor(scales_buffer.data(), DType::kFloat8E8M0, device,
                             {scales.rows, scales.cols});
  QuantizedTensor output;
  if (options.columnwise) {
    output.columnwise_data = data_tensor;
    output.columnwise_scale_inv = scales_tensor;
  } else {
    output.rowwise_data = data_tensor;
    output.rowwise_scale_inv = scales_tensor;
  }
  Quantize(Tensor(input_buffer.data(), dtype, device, {m, n}), output, {}, /*stream=*/nullptr);
  data_buffer.CopyToHost();
  scales_buffer.CopyToHost();

  WriteNpy(options.output + ".data.npy", data);
  WriteNpy(options.output + ".scales.npy", scales);
  std::cout << m << " x " << n << " " << DTypeName(dtype) << " -> " << DTypeName(DType::kFloat8E4M3)
            << (options.columnwise ? " columnwise" : " rowwise") << ", served by " << ServedBy()
            << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Run(Parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "quantize_npy: " << error.what() << "\n";
    return 1;
  }
}
