// TransformerEngine's tensor handles, as far as MXFP8 quantization needs them: code written for
// TransformerEngine's header of this name compiles against this one. Names, values and argument
// orders are TransformerEngine's.
//
// Handles describe memory that the caller owns. All functions throw exceptions derived from
// std::exception; a handle is used by one thread at a time.
#ifndef TRANSFORMER_ENGINE_TRANSFORMER_ENGINE_H_
#define TRANSFORMER_ENGINE_TRANSFORMER_ENGINE_H_

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum NVTEDType {
  kNVTEByte = 0,
  kNVTEInt16 = 1,
  kNVTEInt32 = 2,
  kNVTEInt64 = 3,
  kNVTEFloat32 = 4,
  kNVTEFloat16 = 5,
  kNVTEBFloat16 = 6,
  kNVTEFloat8E4M3 = 7,
  kNVTEFloat8E5M2 = 8,
  kNVTEFloat8E8M0 = 9,
  kNVTEFloat4E2M1 = 10,
  kNVTENumTypes
};

// The first `ndim` entries of `data` are the dimensions, outermost first.
struct NVTEShape {
  size_t data[15];
  size_t ndim;
};

// A contiguous, row-major view. A null pointer means that the memory is not allocated.
struct NVTEBasicTensor {
  void* data_ptr;
  NVTEDType dtype;
  NVTEShape shape;
};

// What a tensor handle holds: views (NVTEBasicTensor) but for the last three.
enum NVTETensorParam {
  kNVTERowwiseData = 0,             // the data; for MXFP8, with scales of 1x32 blocks
  kNVTEColumnwiseData = 1,          // MXFP8: the data with scales of 32x1 blocks, not transposed
  kNVTEScale = 2,                   // not used by MXFP8
  kNVTEAmax = 3,                    // one fp32, raised to max |value| by a quantization
  kNVTERowwiseScaleInv = 4,         // E8M0
  kNVTEColumnwiseScaleInv = 5,      // E8M0
  kNVTEColumnwiseAmax = 6,          // not used by MXFP8
  kNVTEWithGEMMSwizzledScales = 7,  // uint8_t: whether scales are in the GEMM's 128x4 tiles
  kNVTERowScaledNVFP4 = 8,          // uint8_t; not used by MXFP8
  kNVTENVFP4E4M3Max = 9,            // int32_t; not used by MXFP8
  kNVTENumTensorParams
};

enum NVTEScalingMode {
  NVTE_DELAYED_TENSOR_SCALING = 0,  // also every tensor that is not quantized
  NVTE_MXFP8_1D_SCALING = 1,
  NVTE_BLOCK_SCALING_1D = 2,
  NVTE_BLOCK_SCALING_2D = 3,
  NVTE_NVFP4_1D_SCALING = 4,
  NVTE_INVALID_SCALING = 100
};

// Not used by MXFP8.
enum NVTENVFP44Over6Mode {
  kNVTENVFP44Over6Disabled = 0,
  kNVTENVFP44Over6MinMAE = 1,
  kNVTENVFP44Over6MinMSE = 2,
};

typedef void* NVTETensor;

// An empty handle; to be destroyed by nvte_destroy_tensor, which ignores null.
NVTETensor nvte_create_tensor(NVTEScalingMode scaling_mode);
void nvte_destroy_tensor(NVTETensor tensor);

// `size_in_bytes` is the size of `buf`, which holds the parameter's value, of the type given above.
void nvte_set_tensor_param_v2(NVTETensor tensor, NVTETensorParam param, const void* buf,
                              size_t size_in_bytes);
// `buf` or `size_written` may be null: what is asked for with them is then not written.
void nvte_get_tensor_param_v2(const NVTETensor tensor, NVTETensorParam param, void* buf,
                              size_t size_in_bytes, size_t* size_written);

// The same for views alone.
void nvte_set_tensor_param(NVTETensor* tensor, NVTETensorParam param_name,
                           const NVTEBasicTensor* param);
NVTEBasicTensor nvte_get_tensor_param(const NVTETensor tensor, NVTETensorParam param_name);

NVTEScalingMode nvte_tensor_scaling_mode(const NVTETensor tensor);

// Shape and type of the rowwise data, or of the columnwise data if only that is allocated.
NVTEShape nvte_tensor_shape(const NVTETensor tensor);
size_t nvte_tensor_ndims(const NVTETensor tensor);
size_t nvte_tensor_size(const NVTETensor tensor, const size_t dim);
size_t nvte_tensor_numel(const NVTETensor tensor);
NVTEDType nvte_tensor_type(const NVTETensor tensor);
size_t nvte_tensor_element_size_bits(const NVTETensor tensor);
size_t nvte_tensor_element_size(const NVTETensor tensor);  // bytes; not for 4-bit types
size_t nvte_tensor_size_bytes(const NVTETensor tensor);

NVTEShape nvte_tensor_columnwise_shape(const NVTETensor tensor);
NVTEShape nvte_tensor_scale_inv_shape(const NVTETensor tensor);  // rowwise

// Null where nothing is allocated.
void* nvte_tensor_data(const NVTETensor tensor);
void* nvte_tensor_columnwise_data(const NVTETensor tensor);
float* nvte_tensor_amax(const NVTETensor tensor);
float* nvte_tensor_scale(const NVTETensor tensor);
float* nvte_tensor_scale_inv(const NVTETensor tensor);  // rowwise

// Zeroes the rowwise data and the amax, where they are allocated.
void nvte_zero_tensor(const NVTETensor tensor, cudaStream_t stream);

// At most 15 dimensions; all zero if `data` is null.
NVTEShape nvte_make_shape(const size_t* data, size_t ndim);

// Options of a quantization. Those that cannot matter to MXFP8 are kept and not looked at.
enum NVTEQuantizationConfigAttribute {
  kNVTEQuantizationConfigForcePow2Scales = 0,               // uint8_t; MXFP8 scales always are
  kNVTEQuantizationConfigAmaxEpsilon = 1,                   // float
  kNVTEQuantizationConfigNoopTensor = 2,                    // NVTETensor of one fp32
  kNVTEQuantizationConfigFloat8BlockScaleTensorFormat = 3,  // an enumeration, 4 bytes
  kNVTEQuantizationConfigRNGState = 4,                      // NVTETensor
  kNVTEQuantizationConfigNVFP42DQuantization = 5,           // uint8_t
  kNVTEQuantizationConfigStochasticRounding = 6,            // uint8_t
  kNVTEQuantizationConfigUseFastMath = 7,                   // uint8_t
  kNVTEQuantizationConfigNVFP44Over6Mode = 8,               // an NVTENVFP44Over6Mode in a uint8_t
  kNVTEQuantizationConfigNVFP44Over6ErrUseFastMath = 9,     // uint8_t
  kNVTEQuantizationConfigMXFP82DQuantization = 10,          // uint8_t: 32x32 blocks
  kNVTEQuantizationConfigNumAttributes
};

typedef void* NVTEQuantizationConfig;

NVTEQuantizationConfig nvte_create_quantization_config();
void nvte_destroy_quantization_config(NVTEQuantizationConfig config);
void nvte_set_quantization_config_attribute(NVTEQuantizationConfig config,
                                            NVTEQuantizationConfigAttribute attr, const void* buf,
                                            size_t size_in_bytes);
// With a null `buf`, only the attribute's size is written, to `size_written`.
void nvte_get_quantization_config_attribute(NVTEQuantizationConfig config,
                                            NVTEQuantizationConfigAttribute attr, void* buf,
                                            size_t size_in_bytes, size_t* size_written);

// Whether CuTeDSL kernels are used where there are any: 0 is no, anything else is yes, compiling
// them on first use included. For the whole process, at any time, from any thread.
void nvte_set_cutedsl_quant_backend(int enabled);

// Loads what the first calls on the current CUDA device would load, so that they may come while a
// stream is captured into a graph. Not from TransformerEngine; PreloadKernels of
// cutedsl_quant/backend.h.
void nvte_preload_kernels();

#ifdef __cplusplus
}  // extern "C"

#include <vector>

namespace transformer_engine {

enum class DType {
  kByte = 0,
  kInt16 = 1,
  kInt32 = 2,
  kInt64 = 3,
  kFloat32 = 4,
  kFloat16 = 5,
  kBFloat16 = 6,
  kFloat8E4M3 = 7,
  kFloat8E5M2 = 8,
  kFloat8E8M0 = 9,
  kFloat4E2M1 = 10,
  kNumTypes
};

inline bool is_fp8_dtype(const DType type) {
  return type == DType::kFloat8E4M3 || type == DType::kFloat8E5M2;
}
inline bool is_fp4_dtype(const DType type) { return type == DType::kFloat4E2M1; }
inline bool is_high_precision_dtype(const DType type) {
  return type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBFloat16;
}

// Owns a tensor handle (not the memory that it describes). A wrapper that was moved from holds
// nothing: shapes are {0}, pointers null.
class TensorWrapper {
 public:
  static constexpr size_t defaultData = 1;
  static constexpr NVTEShape defaultShape = {{defaultData}, 1};
  static constexpr NVTEShape emptyShape = {{0}, 1};

  // Nothing allocated.
  explicit TensorWrapper(const NVTEScalingMode scaling_mode = NVTE_DELAYED_TENSOR_SCALING)
      : tensor_(nvte_create_tensor(scaling_mode)) {}

  // Rowwise data with, where they are not null, an fp32 amax, scale and inverse scale.
  TensorWrapper(void* dptr, const NVTEShape& shape, const DType dtype, float* amax_dptr = nullptr,
                float* scale_dptr = nullptr, float* scale_inv_dptr = nullptr,
                NVTEShape scale_inv_shape = defaultShape,
                const NVTEScalingMode scaling_mode = NVTE_DELAYED_TENSOR_SCALING)
      : TensorWrapper(scaling_mode) {
    const auto shape_if = [](const void* given, const NVTEShape& s) {
      return given != nullptr ? s : emptyShape;
    };
    set_rowwise_data(dptr, dtype, shape);
    set_amax(amax_dptr, DType::kFloat32, shape_if(amax_dptr, defaultShape));
    set_scale(scale_dptr, DType::kFloat32, shape_if(scale_dptr, defaultShape));
    set_rowwise_scale_inv(scale_inv_dptr, DType::kFloat32,
                          shape_if(scale_inv_dptr, scale_inv_shape));
  }

  TensorWrapper(void* dptr, const std::vector<size_t>& shape, const DType dtype,
                float* amax_dptr = nullptr, float* scale_dptr = nullptr,
                float* scale_inv_dptr = nullptr, const std::vector<size_t>& scale_inv_shape = {1},
                const NVTEScalingMode scaling_mode = NVTE_DELAYED_TENSOR_SCALING)
      : TensorWrapper(dptr, ToShape(shape), dtype, amax_dptr, scale_dptr, scale_inv_dptr,
                      ToShape(scale_inv_shape), scaling_mode) {}

  ~TensorWrapper() { nvte_destroy_tensor(tensor_); }

  TensorWrapper(const TensorWrapper&) = delete;
  TensorWrapper& operator=(const TensorWrapper&) = delete;
  TensorWrapper(TensorWrapper&& other) noexcept : tensor_(other.release()) {}
  TensorWrapper& operator=(TensorWrapper&& other) noexcept {
    if (this != &other) {
      nvte_destroy_tensor(tensor_);
      tensor_ = other.release();
    }
    return *this;
  }

  NVTETensor data() const noexcept { return tensor_; }

  // Shapes are NVTEShape or std::vector<size_t>.
  template <typename ShapeType>
  TensorWrapper& set_parameter(const NVTETensorParam param, void* dptr, DType type,
                               const ShapeType& shape) {
    const NVTEBasicTensor view = {dptr, static_cast<NVTEDType>(type), ToShape(shape)};
    nvte_set_tensor_param_v2(tensor_, param, &view, sizeof(view));
    return *this;
  }
  template <typename ShapeType>
  TensorWrapper& set_rowwise_data(void* dptr, DType type, const ShapeType& shape) {
    return set_parameter(kNVTERowwiseData, dptr, type, shape);
  }
  template <typename ShapeType>
  TensorWrapper& set_columnwise_data(void* dptr, DType type, const ShapeType& shape) {
    return set_parameter(kNVTEColumnwiseData, dptr, type, shape);
  }
  template <typename ShapeType>
  TensorWrapper& set_scale(void* dptr, DType type, const ShapeType& shape) {
    return set_parameter(kNVTEScale, dptr, type, shape);
  }
  template <typename ShapeType>
  TensorWrapper& set_amax(void* dptr, DType type, const ShapeType& shape) {
    return set_parameter(kNVTEAmax, dptr, type, shape);
  }
  template <typename ShapeType>
  TensorWrapper& set_rowwise_scale_inv(void* dptr, DType type, const ShapeType& shape) {
    return set_parameter(kNVTERowwiseScaleInv, dptr, type, shape);
  }
  template <typename ShapeType>
  TensorWrapper& set_columnwise_scale_inv(void* dptr, DType type, const ShapeType& shape) {
    return set_parameter(kNVTEColumnwiseScaleInv, dptr, type, shape);
  }
  template <typename ShapeType>
  TensorWrapper& set_columnwise_amax(void* dptr, DType type, const ShapeType& shape) {
    return set_parameter(kNVTEColumnwiseAmax, dptr, type, shape);
  }
  void set_with_gemm_swizzled_scales(bool with_gemm_swizzled_scales) {
    const uint8_t value = with_gemm_swizzled_scales;
    nvte_set_tensor_param_v2(tensor_, kNVTEWithGEMMSwizzledScales, &value, sizeof(value));
  }

  void set_row_scaled_nvfp4(bool row_scaled_nvfp4) {
    const uint8_t value = row_scaled_nvfp4;
    nvte_set_tensor_param_v2(tensor_, kNVTERowScaledNVFP4, &value, sizeof(value));
  }
  void set_nvfp4_e4m3_max(int nvfp4_e4m3_max) {
    const int32_t value = nvfp4_e4m3_max;
    nvte_set_tensor_param_v2(tensor_, kNVTENVFP4E4M3Max, &value, sizeof(value));
  }

  NVTEBasicTensor get_parameter(const NVTETensorParam param) const {
    return nvte_get_tensor_param(tensor_, param);
  }
  NVTEBasicTensor get_rowwise_data() const { return get_parameter(kNVTERowwiseData); }
  NVTEBasicTensor get_columnwise_data() const { return get_parameter(kNVTEColumnwiseData); }
  NVTEBasicTensor get_scale() const { return get_parameter(kNVTEScale); }
  NVTEBasicTensor get_amax() const { return get_parameter(kNVTEAmax); }
  NVTEBasicTensor get_rowwise_scale_inv() const { return get_parameter(kNVTERowwiseScaleInv); }
  NVTEBasicTensor get_columnwise_scale_inv() const {
    return get_parameter(kNVTEColumnwiseScaleInv);
  }
  NVTEBasicTensor get_columnwise_amax() const { return get_parameter(kNVTEColumnwiseAmax); }
  bool get_with_gemm_swizzled_scales() const {
    uint8_t value = 0;
    nvte_get_tensor_param_v2(tensor_, kNVTEWithGEMMSwizzledScales, &value, sizeof(value), nullptr);
    return value != 0;
  }

  bool get_row_scaled_nvfp4() const {
    uint8_t value = 0;
    nvte_get_tensor_param_v2(tensor_, kNVTERowScaledNVFP4, &value, sizeof(value), nullptr);
    return value != 0;
  }
  int get_nvfp4_e4m3_max() const {
    int32_t value = 0;
    nvte_get_tensor_param_v2(tensor_, kNVTENVFP4E4M3Max, &value, sizeof(value), nullptr);
    return value;
  }

  const NVTEShape shape() const { return Ask(nvte_tensor_shape, emptyShape); }
  const NVTEShape columnwise_shape() const { return Ask(nvte_tensor_columnwise_shape, emptyShape); }
  const NVTEShape scale_inv_shape() const { return Ask(nvte_tensor_scale_inv_shape, emptyShape); }
  size_t size(const size_t dim) const { return tensor_ ? nvte_tensor_size(tensor_, dim) : 0; }
  size_t ndim() const { return Ask(nvte_tensor_ndims, size_t{0}); }
  size_t numel() const { return Ask(nvte_tensor_numel, size_t{0}); }
  size_t element_size() const { return Ask(nvte_tensor_element_size, size_t{0}); }
  size_t element_size_bits() const { return Ask(nvte_tensor_element_size_bits, size_t{0}); }
  // Of what is allocated.
  size_t bytes() const { return dptr() ? nvte_tensor_size_bytes(tensor_) : 0; }
  DType dtype() const { return static_cast<DType>(Ask(nvte_tensor_type, kNVTENumTypes)); }
  void* dptr() const { return Ask(nvte_tensor_data, static_cast<void*>(nullptr)); }
  void* columnwise_dptr() const {
    return Ask(nvte_tensor_columnwise_data, static_cast<void*>(nullptr));
  }
  float* amax() const { return Ask(nvte_tensor_amax, static_cast<float*>(nullptr)); }
  float* scale() const { return Ask(nvte_tensor_scale, static_cast<float*>(nullptr)); }
  float* scale_inv() const { return Ask(nvte_tensor_scale_inv, static_cast<float*>(nullptr)); }
  NVTEScalingMode scaling_mode() const {
    return Ask(nvte_tensor_scaling_mode, NVTE_DELAYED_TENSOR_SCALING);
  }

  void zero_(cudaStream_t stream) { nvte_zero_tensor(tensor_, stream); }

 private:
  static NVTEShape ToShape(const NVTEShape& shape) { return shape; }
  static NVTEShape ToShape(const std::vector<size_t>& shape) {
    return nvte_make_shape(shape.data(), shape.size());
  }

  template <typename Result>
  Result Ask(Result (*question)(const NVTETensor), Result if_moved_from) const {
    return tensor_ == nullptr ? if_moved_from : question(tensor_);
  }

  NVTETensor release() noexcept {
    const NVTETensor tensor = tensor_;
    tensor_ = nullptr;
    return tensor;
  }

  NVTETensor tensor_ = nullptr;
};

// Owns a quantization config.
class QuantizationConfigWrapper {
 public:
  QuantizationConfigWrapper() : config_(nvte_create_quantization_config()) {}
  ~QuantizationConfigWrapper() { nvte_destroy_quantization_config(config_); }

  QuantizationConfigWrapper(const QuantizationConfigWrapper&) = delete;
  QuantizationConfigWrapper& operator=(const QuantizationConfigWrapper&) = delete;
  QuantizationConfigWrapper(QuantizationConfigWrapper&& other) noexcept
      : config_(other.release()) {}
  QuantizationConfigWrapper& operator=(QuantizationConfigWrapper&& other) noexcept {
    if (this != &other) {
      nvte_destroy_quantization_config(config_);
      config_ = other.release();
    }
    return *this;
  }

  operator NVTEQuantizationConfig() const noexcept { return config_; }

  void set_force_pow_2_scales(bool value) {
    Set(kNVTEQuantizationConfigForcePow2Scales, uint8_t{value});
  }
  void set_amax_epsilon(float value) { Set(kNVTEQuantizationConfigAmaxEpsilon, value); }
  void set_noop_tensor(NVTETensor value) { Set(kNVTEQuantizationConfigNoopTensor, value); }
  void set_rng_state(NVTETensor value) { Set(kNVTEQuantizationConfigRNGState, value); }
  void set_nvfp4_2d_quantization(bool value) {
    Set(kNVTEQuantizationConfigNVFP42DQuantization, uint8_t{value});
  }
  void set_mxfp8_2d_quantization(bool value) {
    Set(kNVTEQuantizationConfigMXFP82DQuantization, uint8_t{value});
  }
  void set_stochastic_rounding(bool value) {
    Set(kNVTEQuantizationConfigStochasticRounding, uint8_t{value});
  }
  void set_use_fast_math(bool value) { Set(kNVTEQuantizationConfigUseFastMath, uint8_t{value}); }
  void set_nvfp4_4over6_mode(NVTENVFP44Over6Mode value) {
    Set(kNVTEQuantizationConfigNVFP44Over6Mode, static_cast<uint8_t>(value));
  }
  void set_nvfp4_4over6_err_use_fast_math(bool value) {
    Set(kNVTEQuantizationConfigNVFP44Over6ErrUseFastMath, uint8_t{value});
  }

 private:
  template <typename Value>
  void Set(NVTEQuantizationConfigAttribute attribute, Value value) {
    nvte_set_quantization_config_attribute(config_, attribute, &value, sizeof(value));
  }

  NVTEQuantizationConfig release() noexcept {
    const NVTEQuantizationConfig config = config_;
    config_ = nullptr;
    return config;
  }

  NVTEQuantizationConfig config_ = nullptr;
};

}  // namespace transformer_engine

#endif  // __cplusplus

#endif  // TRANSFORMER_ENGINE_TRANSFORMER_ENGINE_H_
