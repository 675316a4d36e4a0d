#include "ffi_bridge/ffi_kernel.h"

#include <tvm/ffi/any.h>
#include <tvm/ffi/error.h>

#include <exception>
#include <string>

#include "ffi_bridge/dtype.h"
#include "ffi_bridge/errors.h"

namespace cutedsl_quant {
namespace {

// The arguments of one call. Those not set are None.
class Arguments {
 public:
  static constexpr int kCount = 10;

  explicit Arguments(Device device) : device_(ToDLDevice(device)) {}
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void Matrix(int index, const void* data, DLDataType dtype, int64_t rows, int64_t cols) {
    if (data == nullptr) return;
    Extent& extent = extents_[index];
    extent = {{rows, cols}, {cols, 1}};
    SetTensor(index, data, dtype, 2, extent.shape, extent.strides);
  }

  void Scalar(int index, const void* data, DLDataType dtype) {
    if (data == nullptr) return;
    Extent& extent = extents_[index];
    extent = {{1}, {1}};
    SetTensor(index, data, dtype, 1, extent.shape, extent.strides);
  }

  void Pointer(int index, const void* pointer) {
    values_[index].type_index = kTVMFFIOpaquePtr;
    values_[index].v_ptr = const_cast<void*>(pointer);
  }

  const TVMFFIAny* values() const { return values_; }

 private:
  struct Extent {
    int64_t shape[2];
    int64_t strides[2];
  };

  void SetTensor(int index, const void* data, DLDataType dtype, int ndim, int64_t* shape,
                 int64_t* strides) {
    tensors_[index] = {const_cast<void*>(data), device_, ndim, dtype, shape, strides,
                       /*byte_offset=*/0};
    values_[index].type_index = kTVMFFIDLTensorPtr;
    values_[index].v_ptr = &tensors_[index];
  }

  const DLDevice device_;
  TVMFFIAny values_[kCount] = {};  // all zero is None
  // Only what is set is initialised and read.
  DLTensor tensors_[kCount - 2];
  Extent extents_[kCount - 2];
};
static_assert(kTVMFFINone == 0);

}  // namespace

bool FfiKernel::Launch(const QuantizeConfig& config, const KernelArgs& args) const noexcept {
  constexpr DLDataType kFloat = ToDLDataType(DType::kFloat32);
  constexpr DLDataType kByte = ToDLDataType(DType::kByte);
  const DLDataType in = ToDLDataType(config.dtype);
  const DLDataType out = ToDLDataType(config.fp8_dtype);
  const ScaleView& row_scales = args.rowwise_scale_inv;
  const ScaleView& col_scales = args.columnwise_scale_inv;

  Arguments arguments(args.device);
  arguments.Matrix(0, args.input, in, args.rows, args.cols);
  arguments.Matrix(1, args.act_input, in, args.rows, args.cols);
  arguments.Matrix(2, args.rowwise_data, out, args.rows, args.cols);
  arguments.Matrix(3, row_scales.data, kByte, row_scales.rows, row_scales.cols);
  arguments.Matrix(4, args.columnwise_data, out, args.rows, args.cols);
  arguments.Matrix(5, col_scales.data, kByte, col_scales.rows, col_scales.cols);
  arguments.Scalar(6, args.amax, kFloat);
  arguments.Matrix(7, args.dbias_workspace, kFloat, args.dbias_workspace_rows, args.cols);
  if (args.noop != nullptr) arguments.Pointer(8, args.noop);
  arguments.Pointer(9, args.stream);

  TVMFFIAny result = {};
  if (call_(handle_, arguments.values(), Arguments::kCount, &result) == 0) {
    if (result.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(result.v_obj);
    return true;
  }
  RecordRaisedError("launch of ", config);
  return false;
}

}  // namespace cutedsl_quant
