"""How Numba is made to do less for a kernel: one that Python calls, or that other kernels call.

Most of the time that a kernel takes to compile is spent in Python, on each of its operations.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any, cast

import numba
from numba import types

from rankgrove._jit import insides
from rankgrove._jit.lowering import CHOOSING, is_of_two_numbers, short_forms

# "numpy" means that x / 0 is inf or nan, not an exception; kernels cannot raise. Bounds are checked
# when NUMBA_BOUNDSCHECK=1 is set. Nobody calls a kernel from C, and the wrapper for it would take
# time to compile.
_OPTIONS = insides.known_options({"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True})

# Passes over a kernel that find nothing to do in one: closures, expressions of whole arrays, and
# what is to be copied before types are known.
_NEEDLESS_PASSES = ("inline_closure_likes", "inline_overloads", "nopython_rewrites")

# The types of values whose operations are remembered.
_PLAIN = (types.Number, types.Boolean, types.Literal, types.Array, types.SliceType, types.BaseTuple)

# What built-in functions were found to take and to return, by function and types of arguments.
_resolved: dict[tuple[Any, ...], Any] = {}
_resolve: Any = getattr(insides.BaseFunction, "get_call_type", None)

_start: Any = getattr(insides.event, "start_event", None)
_end: Any = getattr(insides.event, "end_event", None)

# Types in whose values there are no variables of a kernel.
_without_variables: set[type] = set()
_list_variables: Any = getattr(insides.Inst, "_rec_list_vars", None)


class _KernelCompiler(insides.Compiler or object):  # type: ignore[misc]
    """Compiles kernels with less work than others.

    To find out what `+` does with two numbers Numba tries each of its dozens of forms, each time
    it is met: a quarter of the time of reading kernels. What variables a statement has it asks ten
    times for each. And it makes so many objects that Python looks for garbage all the time.
    """

    def define_pipelines(self) -> Any:
        pipelines = super().define_pipelines()
        for each in pipelines:
            each.passes = [one for one in each.passes if one[0].name() not in _NEEDLESS_PASSES]
            each.finalize()
        return pipelines

    def _compile_core(self) -> Any:
        with _less_work():
            return super()._compile_core()


@contextlib.contextmanager
def _less_work() -> Iterator[None]:
    """Have Numba remember what it finds out, until the outermost kernel is compiled.

    (Numba lets only one thread compile.)
    """
    methods = short_forms()
    if insides.BaseFunction is not None:
        methods.append((insides.BaseFunction, "get_call_type", _resolve_once))
    if insides.Inst is not None and insides.Var is not None:
        methods.append((insides.Inst, "_rec_list_vars", _list_variables_by_type))
    if insides.event is not None:
        methods.append((insides.event, "start_event", _start_event))
        methods.append((insides.event, "end_event", _end_event))
    before = [getattr(owner, name) for owner, name, _ in methods]
    collects = gc.isenabled()
    gc.disable()
    for owner, name, quick in methods:
        setattr(owner, name, quick)
    try:
        yield
    finally:
        for (owner, name, _), method in zip(methods, before, strict=True):
            setattr(owner, name, method)
        if collects:
            gc.enable()


def _start_event(kind: str, *args: Any, **kwargs: Any) -> None:
    """Say that something begins, but not that LLVM is about to be asked something."""
    if kind != "numba:llvm_lock":
        _start(kind, *args, **kwargs)


def _end_event(kind: str, *args: Any, **kwargs: Any) -> None:
    if kind != "numba:llvm_lock":
        _end(kind, *args, **kwargs)


def _resolve_once(function: Any, context: Any, args: Any, kws: Any) -> Any:
    key = (function, *args)
    signature = None if kws else _resolved.get(key)
    if signature is None and function.typing_key in CHOOSING and is_of_two_numbers(args):
        numbers = [types.unliteral(arg) for arg in args]
        signature = context.unify_types(*numbers)(*numbers)
        _resolved[key] = signature
    elif signature is None:
        signature = _resolve(function, context, args, kws)
        # What is itself compiled may depend on options of the kernel that calls it.
        built_in = function.get_impl_key(signature) is function.typing_key
        if built_in and not kws and all(isinstance(arg, _PLAIN) for arg in args):
            _resolved[key] = signature
    return signature


def _list_variables_by_type(statement: Any, value: Any) -> list[Any]:
    """The variables in a statement's value, as `Inst._rec_list_vars`."""
    type_ = type(value)
    if type_ in _without_variables:
        return []
    if type_ in (dict, list, tuple):
        members = value.values() if type_ is dict else value
        return [one for each in members for one in _list_variables_by_type(statement, each)]
    if isinstance(value, (insides.Inst, insides.Var, dict, list, tuple)):
        return cast("list[Any]", _list_variables(statement, value))
    _without_variables.add(type_)
    return []


class _PartLibrary(insides.JITCodeLibrary or object):  # type: ignore[misc]
    """The code of a kernel that only ever runs as part of others: neither optimised nor translated.

    The kernel that it becomes part of is optimised as a whole, and once is enough.
    """

    def _optimize_final_module(self) -> None:
        """Leave it to the kernel that this becomes part of."""

    def _finalize_final_module(self) -> None:
        # As in the base class, but it is not handed to the engine, which would translate it.
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    @property
    def codegen(self) -> _NoEngine:
        return _NoEngine()


class _NoEngine:
    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: what does not run has no environment."""


class _PartCompiler(_KernelCompiler):
    """Compiles what other kernels call, without what only a caller in Python needs.

    A wrapper, machine code of its own and a file on disk took more than a third of the time; to
    optimise it took a sixth of what was left.
    """

    def __init__(self, typing_context: Any, context: Any, library: Any, *others: Any) -> None:
        library = _PartLibrary(context.codegen(), "part")
        library.enable_object_caching()
        super().__init__(typing_context, context, library, *others)


def entry_options(*, allocates: bool) -> dict[str, Any]:
    """The options by which Numba compiles what Python calls.

    To count references to arrays was a third of what was compiled; only those that a kernel makes
    itself have to be counted. (Numba refuses to make one where they are not counted.)
    """
    options = {**_OPTIONS, **insides.known_options({"_nrt": allocates})}
    return {**options, **({"pipeline_class": _KernelCompiler} if insides.Compiler else {})}


def make_part(function: Callable[..., Any], *, inline: bool, allocates: bool) -> Any:
    """The form of a kernel that other kernels call."""
    options = insides.known_options({"no_cpython_wrapper": True, "forceinline": inline})
    if insides.COMPILES_PARTS:
        options["pipeline_class"] = _PartCompiler
    part = numba.njit(**{**entry_options(allocates=allocates), **options})(function)
    if hasattr(part, "get_call_template"):
        part.get_call_template = lambda args, kws: _call_template(part, args, kws)
    return part


def _call_template(part: Any, args: Any, kws: Any) -> Any:
    """How Numba calls a part, for types alone: by default there is one for each literal number."""
    plain = tuple(types.unliteral(arg) for arg in args)
    return type(part).get_call_template(part, plain, kws)
