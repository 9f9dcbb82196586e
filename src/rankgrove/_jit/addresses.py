"""Named tuples that kernels hand on by their address.

Numba hands a tuple on as all the numbers that it consists of, eight for each array: for two dozen
arrays a third of all that was compiled did nothing else. What such a tuple consists of does not
change while a kernel runs, so the compiler may read it whenever it likes.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from rankgrove._jit import insides

_BYTES = ir.IntType(8).as_pointer()
_WORD = ir.IntType(64)

_classes: set[Any] = set()
_offsets: dict[tuple[Any, int], int] = {}


def by_address(class_: Any) -> Any:
    """Mark a class of named tuples whose values kernels hand on by their address.

    Where an argument is such a tuple, what `if argument is None` leads to is not compiled.
    """
    if insides.HANDS_ADDRESSES:
        _classes.add(class_)

        @typeof_impl.register(class_)
        def type_of(value: Any, context: Any) -> Any:
            return tuple_type([numba.typeof(field) for field in value], class_)

    return class_


def tuple_type(fields: list[Any], class_: Any) -> Any:
    """What Numba takes a named tuple for."""
    plain = types.NamedTuple(fields, class_)
    return Addressed(plain) if class_ in _classes else plain


class Addressed(types.Type):
    """What Numba takes a named tuple for that is handed on by its address."""

    def __init__(self, plain: types.NamedTuple) -> None:
        self.plain: Any = plain
        super().__init__(f"address of {plain}")

    @property
    def key(self) -> Any:
        return self.plain

    @property
    def mangling_args(self) -> tuple[str, tuple[Any, ...]]:
        """A short form of the name, for the names of functions."""
        digest = hashlib.sha256(self.name.encode()).hexdigest()[:12]
        return f"{self.plain.instance_class.__name__}{digest}", ()

    @property
    def literal_type(self) -> Addressed:
        """What Numba asks for to see that an argument is not None."""
        return self


@register_model(Addressed)
class _AddressModel(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: Addressed) -> None:
        # A pointer to bytes: its type is written into each line that the compiler reads.
        super().__init__(manager, type_, _BYTES)


@unbox(Addressed)
def _unbox(type_: Addressed, value: Any, wrapper: Any) -> NativeValue:
    native = wrapper.unbox(type_.plain, value)
    place = cgutils.alloca_once_value(wrapper.builder, native.value)

    def clean_up() -> None:
        if native.cleanup is not None:
            native.cleanup()
        if wrapper.context.enable_nrt:
            wrapper.context.nrt.decref(wrapper.builder, type_.plain, native.value)

    return NativeValue(wrapper.builder.bitcast(place, _BYTES), native.is_error, clean_up)


class _Attributes(insides.AttributeTemplate or object):  # type: ignore[misc]
    key = Addressed

    def generic_resolve(self, type_: Addressed, name: str) -> Any:
        fields = type_.plain.instance_class._fields
        return type_.plain.types[fields.index(name)] if name in fields else None


def _read_attribute(context: Any, builder: Any, type_: Addressed, value: Any, name: str) -> Any:
    index = type_.plain.instance_class._fields.index(name)
    field = type_.plain.types[index]
    place = builder.gep(value, [_WORD(_offset(context, type_, index))], inbounds=True)
    place = builder.bitcast(place, context.get_value_type(field).as_pointer())
    loaded = builder.load(place)
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return insides.impl_ret_borrowed(context, builder, field, loaded)


def _offset(context: Any, type_: Addressed, index: int) -> int:
    """Where a field stands in a tuple, in bytes."""
    if (type_, index) not in _offsets:
        structure = context.get_value_type(type_.plain)
        _offsets[type_, index] = structure.get_element_offset(context.target_data, index)
    return _offsets[type_, index]


if insides.HANDS_ADDRESSES:
    infer_getattr(_Attributes)
    lower_getattr_generic(Addressed)(_read_attribute)
