"""How kernels are compiled, and kept on disk."""

from __future__ import annotations

import dis
import functools
import itertools
import threading
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import typeof_impl

from rankgrove._jit.caching import KernelCache
from rankgrove._jit.intrinsics import empty
from rankgrove._jit.parts import entry_options, make_part

# Functions of NumPy that make an array.
_ALLOCATORS = frozenset({"arange", "argsort", "empty", "ones", "sort", "zeros"})

# Two threads must not make, and compile, two entries of a kernel.
_making = threading.Lock()


_HOW_KERNELS_ARE_COMPILED = (
    "addresses", "compilation", "intrinsics", "lowering", "parts", "scan_lanes",
)  # fmt: skip


class Kernel:
    """A function that is compiled when it is first called.

    It has two forms. What Python calls is kept on disk. What other kernels call becomes part of
    them: see `parts`. Neither is made on import: to look for a place on disk is slow.
    """

    def __init__(self, function: Callable[..., Any], inline: bool) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._inline = inline
        self._entry: Any = None

    def __call__(self, *args: Any) -> Any:
        if self._entry is None:
            with _making:
                self._entry = self._entry or self._make_entry()
        return self._entry(*args)

    def _make_entry(self) -> Any:
        """The form that Python calls."""
        entry = self._compilable()
        # (There is no dispatcher with NUMBA_DISABLE_JIT=1.)
        if hasattr(entry, "_cache"):
            entry._cache = KernelCache(self.py_func, modules_inside(self.py_func))
        return entry

    def _compilable(self) -> Any:
        return numba.njit(**entry_options(allocates=self.allocates))(self.py_func)

    def compile(self, signature: tuple[Any, ...], *, keep: bool) -> Any:
        """What Numba makes of it for these types, without calling it.

        It is taken from where compiled kernels are kept, or else put there, or neither.
        """
        if keep:
            self._entry = self._entry or self._make_entry()
        entry = self._entry if keep else self._compilable()
        entry.compile(signature)
        return entry.overloads[signature]

    @functools.cached_property
    def _part(self) -> Any:
        return make_part(self.py_func, inline=self._inline, allocates=self.allocates)

    @functools.cached_property
    def allocates(self) -> bool:
        """Whether it makes arrays, or calls a kernel that does."""
        here = self.py_func.__globals__
        steps = list(dis.get_instructions(self.py_func))
        called = [here.get(step.argval) for step in steps if step.opname == "LOAD_GLOBAL"]
        of_numpy = {
            step.argval for before, step in itertools.pairwise(steps) if before.argval == "np"
        }
        return not of_numpy.isdisjoint(_ALLOCATORS) or any(
            other is empty or (isinstance(other, Kernel) and other.allocates) for other in called
        )

    @property
    def signatures(self) -> list[Any]:
        """The argument types that Python has called it with so far."""
        return [] if self._entry is None else list(self._entry.signatures)

    @property
    def cache(self) -> KernelCache | None:
        """Where it looks for its code; None before the first call, or if nothing is compiled."""
        return getattr(self._entry, "_cache", None)


@typeof_impl.register(Kernel)
def _type_of_kernel(kernel: Kernel, context: Any) -> Any:
    """What Numba takes it for where another kernel calls it."""
    return numba.typeof(kernel._part)


def kernel(function: Callable[..., Any]) -> Any:
    """Mark a function as a kernel: serial, compiled on first call, without the interpreter lock."""
    return Kernel(function, inline=False)


def inline_kernel(function: Callable[..., Any]) -> Any:
    """Mark a kernel that is copied into each kernel that calls it, however long it is.

    For the body of an innermost loop: the compiler leaves calls of what it finds too long.
    """
    return Kernel(function, inline=True)


def modules_inside(function: Callable[..., Any]) -> set[str]:
    """The modules whose kernels a function may call, and they in turn, and how all are compiled."""
    found = {f"rankgrove._jit.{name}" for name in _HOW_KERNELS_ARE_COMPILED}
    waiting = [function.__globals__]
    while waiting:
        names = waiting.pop()
        if names["__name__"] not in found:
            found.add(names["__name__"])
            waiting += [
                other.py_func.__globals__ for other in names.values() if isinstance(other, Kernel)
            ]
    return found


@functools.lru_cache(maxsize=64)
def compile_swaps(function: Any) -> Any:
    """A kernel that fills in swap deltas by a function that Numba has compiled; else None.

    It takes labels in rank order, which it changes and restores, the ranks that the upper document
    of a pair may have, the ranks between the two at most, and the matrix to write to.
    """
    if not hasattr(function, "py_func") or not hasattr(function, "signatures"):
        return None

    def fill(labels: Any, depth: Any, neighbours: Any, out: Any) -> None:
        before = function(labels)
        for a in range(min(depth, len(labels))):
            for b in range(a + 1, min(len(labels), a + neighbours + 1)):
                if labels[a] != labels[b]:
                    labels[a], labels[b] = labels[b], labels[a]
                    out[a, b] = function(labels) - before
                    labels[a], labels[b] = labels[b], labels[a]

    return numba.njit(nogil=True, error_model="numpy")(fill)


def as_input(array: Any, dtype: Any) -> np.ndarray:
    """The array as kernels take their inputs: of this type, contiguous and read-only.

    Numba compiles a kernel anew for each combination of type, layout and writability, so
    every input passes through here and a kernel keeps one signature.
    """
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view
