"""How kernels become the code that LLVM takes: shorter than what Numba makes of them.

Numba copies all that it knows of an array onto the stack for each element that is read, asks seven
questions about what each call returned, and reads and clears each variable that is no longer used.
LLVM takes most of it away again, which is what compiling spends its time on.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from rankgrove._jit import insides

_ZERO = ir.IntType(64)(0)

# What an object that lowers a kernel knows of its variables, in the Numba that this is for.
_OF_VARIABLES = ("_disable_sroa_like_opt", "_singly_assigned_vars", "_blk_local_varmap")

# What Numba asks for before it takes an array for what it is.
_OF_OTHER_ARRAYS = ("__array__", "static_getitem")

# The smaller or the larger of two numbers, which Numba compiles as functions of their own.
_FINDS_SHORT_CODE = None not in (insides.BaseContext, insides.impl_ret_borrowed)
CHOOSING = {min: operator.lt, max: operator.gt} if _FINDS_SHORT_CODE else {}

_find_code: Any = getattr(insides.BaseContext, "get_function", None)
_call: Any = getattr(insides.BaseContext, "call_internal", None)
_store: Any = getattr(insides.Lower, "storevar", None)
_delete: Any = getattr(insides.Lower, "delvar", None)
_extract: Any = ir.IRBuilder.extract_value


def short_forms() -> list[tuple[Any, str, Any]]:
    """Methods and what to have in their place: owner, name and function."""
    forms: list[tuple[Any, str, Any]] = [(ir.IRBuilder, "extract_value", _extract_value)]
    if _FINDS_SHORT_CODE:
        forms.append((insides.BaseContext, "get_function", _find_short_code))
    if None not in (insides.BaseContext, insides.CPUCallConv):
        forms.append((insides.BaseContext, "call_internal", _call_part))
    if insides.Lower is not None:
        forms.append((insides.Lower, "storevar", _store_variable))
        forms.append((insides.Lower, "delvar", _delete_variable))
    return forms


def _extract_value(builder: Any, structure: Any, index: Any, name: str = "") -> Any:
    """A member of a structure: itself, if it was put there just before."""
    place = list(index) if isinstance(index, (list, tuple)) else [index]
    source = structure
    while len(place) == 1 and isinstance(source, ir.instructions.InsertValue):
        if list(source.indices) == place:
            return source.value
        source = source.aggregate
    return _extract(builder, structure, index, name)


def _is_plain(lower: Any, name: str) -> bool:
    """Whether nothing has to be done for what a variable held: no references to it are counted."""
    if not all(hasattr(lower, each) for each in _OF_VARIABLES) or lower._disable_sroa_like_opt:
        return False
    model = lower.context.data_model_manager[lower.typeof(name)]
    return not (lower.context.enable_nrt and model.contains_nrt_meminfo())


def _store_variable(lower: Any, value: Any, name: str, argidx: Any = None) -> None:
    if argidx is not None or not _is_plain(lower, name):
        _store(lower, value, name, argidx)
    elif name in lower._singly_assigned_vars:
        lower._blk_local_varmap[name] = value
    else:
        lower._alloca_var(name, lower.typeof(name))
        lower.builder.store(value, lower.getvar(name))


def _delete_variable(lower: Any, name: str) -> None:
    if not _is_plain(lower, name):
        _delete(lower, name)
    elif name not in lower._blk_local_varmap:
        lower._singly_assigned_vars.discard(name)


def _call_part(context: Any, builder: Any, description: Any, signature: Any, args: Any) -> Any:
    """Call a kernel that is part of this one; if it fails, this one fails.

    It leaves what went wrong where this one would. (No kernel has a `try` that could ask for it.)
    """
    convention = context.call_conv
    result = signature.return_type
    if builder.function.args[1].name != "excinfo" or isinstance(result, types.Optional):
        return _call(context, builder, description, signature, args)
    function = context.declare_function(builder.module, description)
    place = cgutils.alloca_once(builder, convention.get_return_type(result).pointee)
    error = convention._get_excinfo_argument(builder.function)
    args = convention._get_arg_packer(signature.args).as_arguments(builder, args)
    code = builder.call(function, [place, error, *args])
    with cgutils.if_unlikely(builder, builder.icmp_signed("!=", code, code.type(0))):
        builder.ret(code)
    return context.get_returned_value(builder, result, builder.load(place))


def _find_short_code(context: Any, function: Any, signature: Any, _firstcall: bool = True) -> Any:
    """The code of a built-in function, as `BaseContext.get_function`."""
    if function in _OF_OTHER_ARRAYS and isinstance(signature.args[0], types.Array):
        # Numba would look for it in all that has been imported since it last did.
        raise NotImplementedError
    key = getattr(function, "typing_key", function)
    if key in CHOOSING and is_of_two_numbers(signature.args):
        return functools.partial(_choose, CHOOSING[key], context, signature)
    generate = _GENERATORS.get(key)
    if generate is None or context.enable_boundscheck or not _is_contiguous(*signature.args[:2]):
        return _find_code(context, function, signature, _firstcall)
    if generate is _write and len(_index_types(signature.args[1])) < signature.args[0].ndim:
        return _find_code(context, function, signature, _firstcall)
    return functools.partial(generate, context, signature)


def is_of_two_numbers(args: Any) -> bool:
    """Whether these are the types of two numbers."""
    return len(args) == 2 and all(isinstance(arg, (types.Integer, types.Float)) for arg in args)


def _choose(
    is_better: Any, context: Any, signature: Any, builder: Any, arguments: Any, loc: Any = None
) -> Any:
    """The second of two numbers if it is better, else the first, as Python has it."""
    result = signature.return_type
    first, second = (
        context.cast(builder, argument, type_, result)
        for argument, type_ in zip(arguments, signature.args, strict=True)
    )
    compare = context.get_function(is_better, types.boolean(result, result))
    return builder.select(compare(builder, (second, first)), second, first)


def _is_contiguous(array: Any, index: Any) -> bool:
    """Whether what an index gives is an element, or elements that follow each other."""
    if not isinstance(array, types.Array) or array.layout != "C":
        return False
    return all(isinstance(one, types.Integer) for one in _index_types(index))


def _index_types(index: Any) -> tuple[Any, ...]:
    return index.types if hasattr(index, "types") else (index,)


class _Array:
    """What Numba knows of an array, by name."""

    def __init__(self, context: Any, builder: Any, type_: Any, value: Any) -> None:
        self.model = context.data_model_manager[type_]
        self.builder = builder
        self.value = value

    def get(self, name: str) -> Any:
        return self.builder.extract_value(self.value, self.model.get_field_position(name))

    def set(self, name: str, field: Any) -> None:
        position = self.model.get_field_position(name)
        self.value = self.builder.insert_value(self.value, field, position)


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> tuple[Any, list[Any]]:
    """The address of what an index gives, and the lengths of all axes.

    A number below zero counts from the end.
    """
    array, index = signature.args[:2]
    known = _Array(context, builder, array, arguments[0])
    shape = known.get("shape")
    lengths = [builder.extract_value(shape, axis) for axis in range(array.ndim)]
    numbers = [_ZERO] * array.ndim
    for axis, number in enumerate(_index_types(index)):
        value = arguments[1]
        if isinstance(index, types.BaseTuple):
            value = builder.extract_value(value, axis)
        value = context.cast(builder, value, number, types.intp if number.signed else types.uintp)
        number_itself = getattr(value, "constant", None)
        is_known = isinstance(number_itself, int) and number_itself >= 0
        if number.signed and not is_known:
            negative = builder.icmp_signed("<", value, _ZERO)
            numbers[axis] = builder.select(negative, builder.add(value, lengths[axis]), value)
        else:
            numbers[axis] = value
    offset = numbers[0]
    for number, length in zip(numbers[1:], lengths[1:], strict=True):
        offset = builder.mul(offset, length)
        if number is not _ZERO:
            offset = builder.add(offset, number)
    return builder.gep(known.get("data"), [offset]), lengths


def _read(context: Any, signature: Any, builder: Any, arguments: Any, loc: Any = None) -> Any:
    array = signature.args[0]
    place, lengths = _place(context, builder, signature, arguments)
    lengths = lengths[len(_index_types(signature.args[1])) :]
    if not lengths:
        return context.unpack_value(builder, array.dtype, place, align=_alignment(array))
    view_type = signature.return_type
    known = _Array(context, builder, array, arguments[0])
    view = _Array(context, builder, view_type, ir.Constant(context.get_value_type(view_type), None))
    for name in ("meminfo", "parent", "itemsize"):
        view.set(name, known.get(name))
    view.set("data", place)
    strides = known.get("strides")
    first = array.ndim - len(lengths)
    strides = [builder.extract_value(strides, axis) for axis in range(first, array.ndim)]
    view.set("nitems", functools.reduce(builder.mul, lengths))
    view.set("shape", cgutils.pack_array(builder, lengths))
    view.set("strides", cgutils.pack_array(builder, strides))
    return insides.impl_ret_borrowed(context, builder, view_type, view.value)


def _write(context: Any, signature: Any, builder: Any, arguments: Any, loc: Any = None) -> Any:
    array, _, number = signature.args
    place, _ = _place(context, builder, signature, arguments)
    value = context.cast(builder, arguments[2], number, array.dtype)
    context.pack_value(builder, array.dtype, value, place, align=_alignment(array))
    return context.get_dummy_value()


def _alignment(array: Any) -> int | None:
    return None if array.aligned else 1


_GENERATORS = {operator.getitem: _read, operator.setitem: _write}
