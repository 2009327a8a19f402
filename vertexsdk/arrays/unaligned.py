"""`load_8`, `load_4`, `store_8`: bytes of an array as one number, wherever they begin."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _load(kind: Any) -> Any:
    @intrinsic
    def load(typing_context, array, k):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            data = cgutils.create_struct_proxy(array)(context, builder, arguments[0]).data
            number = ir.IntType(kind.bitwidth)
            place = builder.bitcast(builder.gep(data, [arguments[1]]), number.as_pointer())
            return builder.load(place, align=1)

        return kind(array, k), generate

    return load


@intrinsic
def _store(typing_context, array, k, number):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = cgutils.create_struct_proxy(array)(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), arguments[2].type.as_pointer())
        builder.store(arguments[2], place, align=1)
        return context.get_dummy_value()

    return types.void(array, k, number), generate


load_8: Any = _load(types.uint64)
"""load_8(array, k) returns the bytes k, ... k + 7 of a uint8 array, which has to have them."""
load_4: Any = _load(types.uint32)
"""load_4(array, k) returns the bytes k, ... k + 3."""
store_8: Any = _store
"""store_8(array, k, number) sets the bytes k, ... k + 7."""
