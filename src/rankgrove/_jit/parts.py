"""How Numba is made to do less for a kernel: one that Python calls, or that other kernels call.

Most of the time that a kernel takes to compile is spent in Python, on each of its operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import types

from rankgrove._jit import insides

# "numpy" means that x / 0 is inf or nan, not an exception; kernels cannot raise. Bounds are checked
# when NUMBA_BOUNDSCHECK=1 is set. Nobody calls a kernel from C, and the wrapper for it would take
# time to compile.
_OPTIONS = insides.known_options({"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True})

# The types of values whose operations are remembered.
_PLAIN = (types.Number, types.Boolean, types.Literal, types.Array, types.SliceType, types.BaseTuple)

# What built-in functions were found to take and to return, by function and types of arguments.
_resolved: dict[tuple[Any, ...], Any] = {}
_resolve: Any = getattr(insides.BaseFunction, "get_call_type", None)


class _KernelCompiler(insides.Compiler or object):  # type: ignore[misc]
    """Compiles kernels, and remembers how their operations were resolved.

    To find out what `+` does with two numbers Numba tries each of its dozens of forms, each time
    it is met: a quarter of the time of reading kernels.
    """

    def _compile_core(self) -> Any:
        # (Numba lets only one thread compile.)
        if _resolve is None or insides.BaseFunction.get_call_type is not _resolve:
            return super()._compile_core()
        insides.BaseFunction.get_call_type = _resolve_once
        try:
            return super()._compile_core()
        finally:
            insides.BaseFunction.get_call_type = _resolve


def _resolve_once(function: Any, context: Any, args: Any, kws: Any) -> Any:
    key = (function, *args)
    signature = None if kws else _resolved.get(key)
    if signature is None:
        signature = _resolve(function, context, args, kws)
        # What is itself compiled may depend on options of the kernel that calls it.
        built_in = function.get_impl_key(signature) is function.typing_key
        if built_in and not kws and all(isinstance(arg, _PLAIN) for arg in args):
            _resolved[key] = signature
    return signature


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


def entry_options() -> dict[str, Any]:
    """The options by which Numba compiles what Python calls."""
    return {**_OPTIONS, **({"pipeline_class": _KernelCompiler} if insides.Compiler else {})}


def make_part(function: Callable[..., Any], *, inline: bool) -> Any:
    """The form of a kernel that other kernels call."""
    options = insides.known_options({"no_cpython_wrapper": True, "forceinline": inline})
    if insides.COMPILES_PARTS:
        options["pipeline_class"] = _PartCompiler
    part = numba.njit(**{**entry_options(), **options})(function)
    if hasattr(part, "get_call_template"):
        part.get_call_template = lambda args, kws: _call_template(part, args, kws)
    return part


def _call_template(part: Any, args: Any, kws: Any) -> Any:
    """How Numba calls a part, for types alone: by default there is one for each literal number."""
    plain = tuple(types.unliteral(arg) for arg in args)
    return type(part).get_call_template(part, plain, kws)
