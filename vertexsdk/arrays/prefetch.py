"""`prefetch`: have the processor fetch what a kernel reads soon."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def _prefetch(typing_context, array, k):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = cgutils.create_struct_proxy(array)(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (place.type,), kind)
        builder.call(function, [place, *(number(x) for x in (0, 3, 1))])  # to read, and keep, data
        return context.get_dummy_value()

    return types.void(array, k), generate


prefetch: Any = _prefetch
"""prefetch(array, k) has the processor fetch array[k], which is read soon; any k does no harm."""
