"""What kernels can say beyond Python: prefetching, the clock, and words between threads."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_WORD = ir.IntType(64)


def _call(builder: Any, result: ir.Type, name: str, arguments: Sequence[Any] = ()) -> Any:
    """Call a function of LLVM or of C."""
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        function = ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The address of an element of a one-dimensional array, the first two arguments."""
    array = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
    if signature.args[0].layout != "A":
        return builder.gep(array.data, [arguments[1]])
    # Elements that stand apart: the second copy of codes is a view of the first if there is none.
    stride = builder.extract_value(array.strides, 0)
    start = builder.bitcast(array.data, ir.IntType(8).as_pointer())
    place = builder.gep(start, [builder.mul(stride, arguments[1])])
    return builder.bitcast(place, array.data.type)


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """In a kernel: ask for the cache line of a one-dimensional array's element ahead of its use."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        # For reading, to be kept in all levels of the cache, as data.
        arguments = [builder.bitcast(place, byte), word(0), word(3), word(1)]
        _call(builder, ir.VoidType(), "llvm.prefetch.p0", arguments)
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)


def _cycles(typing_context: Any) -> Any:
    """In a kernel: the processor's clock, to see where time goes in what runs as one piece."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, ir.IntType(64), "llvm.readcyclecounter")

    return types.int64(), generate


cycles: Any = intrinsic(_cycles)


def _atomic_load(typing_context: Any, array: Any, index: Any) -> Any:
    """In a kernel: an element of an int64 array that another thread may be writing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        return builder.load_atomic(place, "seq_cst", 8)

    return types.int64(array, index), generate


atomic_load: Any = intrinsic(_atomic_load)


def _atomic_store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """In a kernel: write an element of an int64 array, after all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], place, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, index, types.int64), generate


atomic_store: Any = intrinsic(_atomic_store)


def _atomic_add(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """In a kernel: add to an element of an int64 array in one step; what it was before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _pointer(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(array, index, types.int64), generate


atomic_add: Any = intrinsic(_atomic_add)


def _give_way(typing_context: Any) -> Any:
    """In a kernel that waits for another thread: let it run, if it has to run here."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if os.name == "posix":
            _call(builder, ir.IntType(32), "sched_yield")
        return context.get_dummy_value()

    return types.void(), generate


give_way: Any = intrinsic(_give_way)


def _pause(typing_context: Any) -> Any:
    """In a kernel that waits for another thread: leave the processor's units to others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            _call(builder, ir.VoidType(), "llvm.x86.sse2.pause")
        return context.get_dummy_value()

    return types.void(), generate


pause: Any = intrinsic(_pause)


def _local_floats(typing_context: Any) -> Any:
    """In a kernel: 256 numbers that are there until it ends."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = cgutils.create_struct_proxy(signature.return_type)(context, builder)
        place = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), 256))
        array.data = builder.bitcast(place, ir.DoubleType().as_pointer())
        array.nitems, array.itemsize = _WORD(256), _WORD(8)
        array.shape = ir.ArrayType(_WORD, 1)([256])
        array.strides = ir.ArrayType(_WORD, 1)([8])
        array.meminfo, array.parent = array.meminfo.type(None), array.parent.type(None)
        return array._getvalue()

    return types.Array(types.float64, 1, "C")(), generate


local_floats: Any = intrinsic(_local_floats)
