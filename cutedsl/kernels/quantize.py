"""What a program calls: one configuration, in the shape that the size of the tensor asks for."""

from __future__ import annotations

from collections.abc import Sequence

import cutlass
import cutlass.cute as cute
from cutlass import Int64

from cutedsl.architectures import Architecture
from cutedsl.config import QuantizeConfig
from cutedsl.kernels.strip import StripKernel, extents
from cutedsl.tuning import Tuning


class Quantize:
    """The function of one configuration, for `cute.compile`."""

    def __init__(
        self, config: QuantizeConfig, architecture: Architecture, shapes: Sequence[Tuning]
    ) -> None:
        """`shapes`: one or two, as tuning.choose gives them."""
        self.kernels = [StripKernel(config, architecture, shape) for shape in shapes]

    @cute.jit
    def __call__(
        self,
        input: cute.Tensor,
        act_input: cute.Tensor | None,
        rowwise_data: cute.Tensor | None,
        rowwise_scale_inv: cute.Tensor | None,
        columnwise_data: cute.Tensor | None,
        columnwise_scale_inv: cute.Tensor | None,
        amax: cute.Tensor | None,
        dbias_workspace: cute.Tensor | None,
        noop: cute.Pointer,
        stream,
    ):
        """Launches a kernel; the arguments are those of ffi_bridge/kernel_package_abi.h."""
        arguments = (
            input,
            act_input,
            rowwise_data,
            rowwise_scale_inv,
            columnwise_data,
            columnwise_scale_inv,
            amax,
            dbias_workspace,
            noop,
            stream,
        )
        large = self.kernels[-1]
        if cutlass.const_expr(len(self.kernels) == 1):
            large(*arguments)
        else:
            small = self.kernels[0]
            m, n = extents(input)
            if m * n <= Int64(small.tuning.max_elements):
                small(*arguments)
            else:
                large(*arguments)
