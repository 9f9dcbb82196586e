"""What kernels can say beyond Python: prefetching, the clock, and words between threads."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_WORD = ir.IntType(64)


def call(builder: Any, result: ir.Type, name: str, arguments: Sequence[Any] = ()) -> Any:
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


def _prefetch_to(level: int) -> Any:
    """An intrinsic that fetches a cache line, into the caches from this level on."""

    def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
        """In a kernel: ask for the cache line of a one-dimensional array's element before its use.

        `prefetch` fetches it into all levels of the cache; `prefetch_to_second` not into the first
        one, where it would take the place of what is in use until then.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place = _pointer(context, builder, signature, arguments)
            byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
            # For reading, to be kept in all levels but those before this one, as data.
            arguments = [builder.bitcast(place, byte), word(0), word(4 - level), word(1)]
            call(builder, ir.VoidType(), "llvm.prefetch.p0", arguments)
            return context.get_dummy_value()

        return types.void(array, index), generate

    return intrinsic(prefetch)


prefetch: Any = _prefetch_to(1)
prefetch_to_second: Any = _prefetch_to(2)


def _cycles(typing_context: Any) -> Any:
    """In a kernel: the processor's clock, to see where time goes in what runs as one piece."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return call(builder, ir.IntType(64), "llvm.readcyclecounter")

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
            call(builder, ir.IntType(32), "sched_yield")
        return context.get_dummy_value()

    return types.void(), generate


give_way: Any = intrinsic(_give_way)


def _pause(typing_context: Any) -> Any:
    """In a kernel that waits for another thread: leave the processor's units to others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            call(builder, ir.VoidType(), "llvm.x86.sse2.pause")
        return context.get_dummy_value()

    return types.void(), generate


pause: Any = intrinsic(_pause)


def _fill_array(array: Any, builder: Any, data: Any, shape: Sequence[Any], size: int) -> Any:
    """Set what Numba knows of a contiguous array, but for who holds its memory."""
    array.data = builder.bitcast(data, array.data.type)
    array.itemsize, array.nitems = _WORD(size), _WORD(1)
    strides: list[Any] = []
    for length in reversed(shape):
        strides.insert(0, builder.mul(array.nitems, _WORD(size)))
        array.nitems = builder.mul(array.nitems, length)
    array.shape = cgutils.pack_array(builder, shape)
    array.strides = cgutils.pack_array(builder, strides)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array


def _local_floats(typing_context: Any) -> Any:
    """In a kernel: 256 numbers that are there until it ends."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.return_type)(context, builder)
        place = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), 256))
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return _fill_array(array, builder, place, [_WORD(256)], 8)._getvalue()

    return types.Array(types.float64, 1, "C")(), generate


local_floats: Any = intrinsic(_local_floats)


def _empty(typing_context: Any, shape: Any, dtype: Any) -> Any:
    """In a kernel: `np.empty(shape, dtype)`, which Numba compiles anew for each type."""
    n_axes = len(shape) if isinstance(shape, types.BaseTuple) else 1
    lengths = types.UniTuple(types.intp, n_axes) if n_axes > 1 else types.intp

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.return_type)(context, builder)
        one = arguments[0]
        shape = cgutils.unpack_tuple(builder, one) if n_axes > 1 else [one]
        size = context.get_abi_sizeof(context.get_data_type(dtype.dtype))
        n_bytes = _WORD(size)
        for length in shape:
            n_bytes = builder.mul(n_bytes, length)
        array.meminfo = context.nrt.meminfo_alloc_aligned(builder, n_bytes, 64)
        data = context.nrt.meminfo_data(builder, array.meminfo)
        return _fill_array(array, builder, data, shape, size)._getvalue()

    return types.Array(dtype.dtype, n_axes, "C")(lengths, dtype), generate


def _reinterpret(typing_context: Any, array: Any, dtype: Any) -> Any:
    """In a kernel: `array.view(dtype)` for numbers of the same size, with less to compile."""
    if array.dtype.bitwidth != dtype.dtype.bitwidth:
        raise TypeError(f"{array.dtype} and {dtype.dtype} differ in size")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        seen = context.make_array(signature.return_type)(context, builder)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        for name in ("meminfo", "parent", "nitems", "itemsize", "shape", "strides"):
            setattr(seen, name, getattr(array, name))
        seen.data = builder.bitcast(array.data, seen.data.type)
        value = seen._getvalue()
        if context.enable_nrt:
            context.nrt.incref(builder, signature.return_type, value)
        return value

    return array.copy(dtype=dtype.dtype)(array, dtype), generate


def _bits_of(typing_context: Any, number: Any) -> Any:
    """In a kernel: the bits of a float64 as an int64, in a register."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _WORD)

    return types.int64(types.float64), generate


def _float_of(typing_context: Any, bits: Any) -> Any:
    """In a kernel: the float64 that has the bits of an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


def _flattened(typing_context: Any, array: Any) -> Any:
    """In a kernel: `array.reshape(-1)` of a contiguous array, with less to compile."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = context.make_array(signature.return_type)(context, builder)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        size = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
        row.meminfo = array.meminfo
        value = _fill_array(row, builder, array.data, [array.nitems], size)._getvalue()
        if context.enable_nrt:
            context.nrt.incref(builder, signature.return_type, value)
        return value

    if array.layout != "C":
        raise TypeError(f"{array} is not contiguous")
    return array.copy(ndim=1)(array), generate


def _flatten(array: Any) -> Any:
    return array.reshape(-1)


# How many bytes are chosen at once, by `choose_bytes`.
LANES = 32


def _choose_bytes(
    typing_context: Any, codes: Any, code: Any, less: Any, highest: Any, out: Any, a: Any, b: Any,
    place: Any,
) -> Any:  # fmt: skip
    """In a kernel: write 32 bytes of `out`, each one from place `a` or from place `b` of it.

    From `a` where the code, less so much, as a byte without sign, is at most the highest. A loop
    that says the same asks each time whether what it writes is what it reads.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bytes_ = ir.VectorType(ir.IntType(8), LANES)
        undefined = ir.Constant(bytes_, ir.Undefined)
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)

        def pointer(array: int, index: int) -> Any:
            pair = signature.args[array], arguments[array]
            start = cgutils.create_struct_proxy(pair[0])(context, builder, pair[1]).data
            return builder.bitcast(builder.gep(start, [arguments[index]]), bytes_.as_pointer())

        def repeated(index: int) -> Any:
            one = builder.insert_element(undefined, arguments[index], ir.IntType(32)(0))
            return builder.shuffle_vector(one, undefined, zeros)

        reduced = builder.sub(builder.load(pointer(0, 1), align=1), repeated(2))
        if_a, if_b = (builder.load(pointer(4, index), align=1) for index in (5, 6))
        is_a = builder.icmp_unsigned("<=", reduced, repeated(3))
        builder.store(builder.select(is_a, if_a, if_b), pointer(4, 7), align=1)
        return context.get_dummy_value()

    word, byte = types.uint64, types.uint8
    return types.void(codes, word, byte, byte, out, word, word, word), generate


def _choose_bytes_plainly(
    codes: Any, code: int, less: Any, highest: Any, out: Any, a: int, b: int, place: int
) -> None:
    reduced = codes[code : code + LANES] - less
    if_a, if_b = out[a : a + LANES], out[b : b + LANES]
    out[place : place + LANES] = np.where(reduced <= highest, if_a, if_b)


# A sum of a multiple of 8 values has so many lanes, whatever the machine's width.
SUM_LANES = 8


def _sum_in_lanes(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> Any:
    """Code for the sum of a row, in lanes; and to add it to sums, or take it from them, by name.

    In a loop of Python's, which takes one value at a time, lanes would not become vectors.
    """
    lanes = ir.VectorType(ir.DoubleType(), SUM_LANES)
    pairs = zip(signature.args, arguments, strict=True)
    arrays = [cgutils.create_struct_proxy(t)(context, builder, value) for t, value in pairs]
    total = cgutils.alloca_once_value(builder, ir.Constant(lanes, [0.0] * SUM_LANES))
    n_blocks = builder.udiv(arrays[0].nitems, _WORD(SUM_LANES))
    with cgutils.for_range(builder, n_blocks) as loop:
        at = builder.mul(loop.index, _WORD(SUM_LANES))
        places = [
            builder.bitcast(builder.gep(each.data, [at]), lanes.as_pointer()) for each in arrays
        ]
        values = [builder.load(place, align=8) for place in places]
        builder.store(builder.fadd(builder.load(total), values[0]), total)
        if name:
            changed = getattr(builder, name)(values[1], values[0])
            builder.store(changed, places[1], align=8)
    s = [builder.extract_element(builder.load(total), _WORD(i)) for i in range(SUM_LANES)]
    for width in (4, 2, 1):
        s = [builder.fadd(s[i], s[i + width]) for i in range(width)]
    return s[0]


def _sum_lanes(typing_context: Any, row: Any) -> Any:
    """In a kernel: the sum of a multiple of 8 values, in an order that suits vectors."""
    return types.float64(row), functools.partial(_sum_in_lanes, name="")


def _add_lanes(typing_context: Any, row: Any, sums: Any) -> Any:
    """In a kernel: as `sum_lanes`, and add the row to sums."""
    return types.float64(row, sums), functools.partial(_sum_in_lanes, name="fadd")


def _subtract_lanes(typing_context: Any, row: Any, sums: Any) -> Any:
    """In a kernel: as `sum_lanes`, and take the row from sums."""
    return types.float64(row, sums), functools.partial(_sum_in_lanes, name="fsub")


def _sum_lanes_plainly(row: Any) -> Any:
    s = np.zeros(SUM_LANES)
    for at in range(0, len(row), SUM_LANES):
        s += row[at : at + SUM_LANES]
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))


def _add_lanes_plainly(row: Any, sums: Any) -> Any:
    sums += row
    return _sum_lanes_plainly(row)


def _subtract_lanes_plainly(row: Any, sums: Any) -> Any:
    sums -= row
    return _sum_lanes_plainly(row)


# Kernels that run as they stand take what NumPy has.
_runs_as_it_stands = bool(getattr(numba.config, "DISABLE_JIT", False))
empty: Any = np.empty if _runs_as_it_stands else intrinsic(_empty)
reinterpret: Any = np.ndarray.view if _runs_as_it_stands else intrinsic(_reinterpret)
choose_bytes: Any = _choose_bytes_plainly if _runs_as_it_stands else intrinsic(_choose_bytes)
bits_of: Any = (
    (lambda number: np.float64(number).view(np.int64))
    if _runs_as_it_stands
    else (intrinsic(_bits_of))
)
float_of: Any = (
    (lambda bits: np.int64(bits).view(np.float64)) if _runs_as_it_stands else (intrinsic(_float_of))
)
sum_lanes: Any = _sum_lanes_plainly if _runs_as_it_stands else intrinsic(_sum_lanes)
add_lanes: Any = _add_lanes_plainly if _runs_as_it_stands else intrinsic(_add_lanes)
subtract_lanes: Any = _subtract_lanes_plainly if _runs_as_it_stands else intrinsic(_subtract_lanes)
flattened: Any = _flatten if _runs_as_it_stands else intrinsic(_flattened)
