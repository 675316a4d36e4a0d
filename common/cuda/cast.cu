// The launch of a cast by the kernel that fits it.
#include "common/cuda/cast.h"
#include "common/cuda/cast_params.cuh"
#include "common/cuda/launch.h"
#include "common/numerics.h"

namespace cutedsl_quant {
namespace cuda {
namespace {

CastKernelSelection Select(const QuantizeConfig& config, const KernelArgs& args) {
  if (config.use_2d_quantization) return SelectSquareBlocksCast(config, args);
  if (config.with_dact) return SelectDerivativeCast(config, args);
  if (config.with_dbias) return SelectDbiasCast(config, args);
  if (config.with_act) return SelectActivationCast(config, args);
  return SelectPlainCast(config, args);
}

}  // namespace

void Quantize(const QuantizeConfig& config, const KernelArgs& args) {
  CastParams params = {};
  params.input = args.input;
  params.act_input = args.act_input;
  params.activation = numerics::ActivationFunction(config.activation);
  params.rowwise_data = args.rowwise_data;
  params.columnwise_data = args.columnwise_data;
  params.rowwise_scale = {args.rowwise_scale_inv.data, args.rowwise_scale_inv.cols,
                          numerics::CeilDiv(args.cols, 128)};
  params.columnwise_scale = {args.columnwise_scale_inv.data, args.columnwise_scale_inv.cols,
                             numerics::CeilDiv(args.rows, 128)};
  params.amax = args.amax;
  params.dbias_workspace = args.dbias_workspace;
  params.noop = args.noop;
  params.rows = args.rows;
  params.cols = args.cols;
  params.swizzled = config.swizzled;

  const CastKernelSelection selected = Select(config, args);
  const numerics::ScaleShape extent = config.swizzled
                                          ? numerics::PaddedRowwiseScaleShape(args.rows, args.cols)
                                          : numerics::ExactRowwiseScaleShape(args.rows, args.cols);
  params.tile_columns = GridColumns(extent.cols);
  params.tiles = extent.cols * numerics::CeilDiv(extent.rows, selected.tile_rows);
  Launch(selected.kernel, numerics::CeilDiv(params.tiles, selected.vec), selected.warps * 32,
         params, args.stream);
}

}  // namespace cuda
}  // namespace cutedsl_quant
