"""Where compiled kernels come from: this machine's own, those of the package, or the compiler."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba.core import event

from rankgrove._jit import insides
from rankgrove._jit.signatures import signature_text
from rankgrove._jit.store import (
    FOLDER,
    DamagedStoreError,
    Store,
    compilers,
    file_of,
    supported_levels,
)

# Set to 1, nothing that came with the package is used: all is compiled for this very processor.
NATIVE = "RANKGROVE_NATIVE"

# Why files of the package are not used.
_unused: list[str] = []


class KernelCache:
    """What is compiled already of one kernel: with the package, or on this machine.

    Parameters
    ----------
    function, modules
        The kernel, and the modules whose code is compiled into it.

    Attributes
    ----------
    origin
        Where its code for the last signature came from: "package", "cache" or "compiler".
    """

    def __init__(self, function: Callable[..., Any], modules: set[str]) -> None:
        self._function, self._modules = function, sorted(modules)
        self.origin = "compiler"

    @functools.cached_property
    def _files(self) -> Any:
        """Numba's own files of what this machine has compiled; None where none can be written.

        To look for a place on disk writes a file, so this waits until something is to be compiled.
        """
        if insides.FunctionCache is None:
            return None
        try:
            files = insides.FunctionCache(self._function)
        except (RuntimeError, OSError):
            return None
        if not hasattr(getattr(files, "_cache_file", None), "_source_stamp"):
            return None
        # Numba looks for changes in a kernel's own file only. What comes from other files is inside
        # its code, so their state has to agree, too.
        stamps = [(module, _file_state(module)) for module in self._modules]
        files._cache_file._source_stamp = (files._cache_file._source_stamp, *stamps)
        return files

    @property
    def cache_path(self) -> str | None:
        """The folder of what is compiled on this machine; None if none can be written."""
        return None if self._files is None else self._files.cache_path

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The kernel for one signature, or None."""
        found = self._load_shipped(signature, target_context)
        self.origin = "package"
        if found is None and self._files is not None:
            self.origin = "cache"
            try:
                found = self._files.load_overload(signature, target_context)
            except Exception:  # (what reads a file that was cut off raises anything)
                self._files.flush()
        if found is None:
            self.origin = "compiler"
        return found

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled for the next process."""
        if self._files is None:
            return
        try:
            self._files.save_overload(signature, result)
        except OSError as error:
            self._files = None
            _Notice.say(
                f"rankgrove: what was compiled cannot be kept ({error.strerror or error}) and will "
                "be compiled again; set NUMBA_CACHE_DIR to a folder that can be written"
            )

    def flush(self) -> None:
        """Forget what this machine has compiled, as Numba's `recompile` asks for."""
        if self._files is not None:
            self._files.flush()
            del self._files  # (constants may have changed)

    def _load_shipped(self, signature: Any, target_context: Any) -> Any:
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        try:
            types = signature_text(signature)
        except TypeError:
            return None  # (nothing is compiled ahead for these)
        for store in shipped_stores():
            try:
                code = store.find(name, types, source_digest(self._modules))
            except (DamagedStoreError, OSError) as error:
                _unused.append(str(error))
                continue
            if code is not None:
                _prepare(target_context)
                return insides.CompileResult._rebuild(target_context, *pickle.loads(code))
        return None


def _prepare(target_context: Any) -> None:
    """Have Numba ready to run what is compiled: it need not load all that compiling takes."""
    if insides.rtsys is None:
        target_context.refresh()
    else:
        insides.rtsys.initialize(target_context)


class _Notice(event.Listener):
    """Says once, on stderr, that a first use compiles; silent when nothing has to."""

    def __init__(self) -> None:
        self.said = False

    @staticmethod
    def say(line: str) -> None:
        print(line, file=sys.stderr)

    def on_start(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
        if self.said or not (dispatcher.py_func.__module__ or "").startswith("rankgrove."):
            return
        self.said = True
        why = f" ({_unused[0]})" if _unused else ""
        kept = "the result is cached ('rankgrove warmup' does this ahead)"
        if isinstance(dispatcher._cache, KernelCache) and dispatcher._cache.cache_path is None:
            kept = (
                "the result cannot be kept, as no folder for it can be written: set "
                "NUMBA_CACHE_DIR to one that can"
            )
        self.say(f"rankgrove: compiling on first use{why}; {kept}")

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Notice())


def code_of(result: Any) -> bytes:
    """What a compiled kernel is made of, to be kept in a file of the package."""
    (name, kind, (code, _)), description, *others = result._reduce()
    # No other kernel will be linked with it, so of its intermediate code only the names are kept.
    names = (description.llvm_func_name, description.llvm_cpython_wrapper_name)
    stubs = "".join(f'define void @"{each}"() {{ ret void }}\n' for each in names)
    stub_code = llvm.parse_assembly(stubs).as_bitcode()
    content: bytes = insides.dumps(((name, kind, (code, stub_code)), description, *others))
    return content


@functools.cache
def shipped_stores() -> list[Store]:
    """The files of the package that this processor and these compilers can use, the best first."""
    if wants_native() or not insides.SHIPS_KERNELS or insides.config.BOUNDSCHECK:
        return []
    stores = []
    wanted = compilers()
    for level in supported_levels(processor_features()):
        path = file_of(level, FOLDER)
        try:
            store = Store(path)
        except FileNotFoundError:
            continue
        except (DamagedStoreError, OSError) as error:
            _unused.append(str(error))
            continue
        differing = [name for name, version in wanted.items() if store.key.get(name) != version]
        theirs = ", ".join(f"{name} {store.key.get(name)}" for name in differing)
        ours = ", ".join(f"{name} {wanted[name]}" for name in differing)
        if differing:
            _unused.append(f"compiled kernels of the package are for {theirs}, here is {ours}")
        elif store.key.get("level") != level:
            _unused.append(f"{path} is for another processor")
        else:
            stores.append(store)
    return stores


def wants_native() -> bool:
    """Whether all is compiled for this very processor: a variable or a file says so."""
    if (setting := os.environ.get(NATIVE)) is not None:
        return setting == "1"
    for path in native_marks():
        try:
            if path.read_text("utf-8") == llvm.get_host_cpu_name():
                return True
        except (OSError, ValueError):
            continue
    return False


def note_native() -> Path | None:
    """Note that all is compiled for this very processor: the file that says so, if any can be."""
    for path in native_marks():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(llvm.get_host_cpu_name(), "utf-8")
        except OSError:
            continue
        return path
    return None


def native_marks() -> list[Path]:
    """The files in one of which `note_native` notes the processor."""
    own = os.environ.get("NUMBA_CACHE_DIR")
    if own:
        return [Path(own, "rankgrove-native")]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [FOLDER / "native", Path(home, "rankgrove", "native")]


def processor_features() -> list[str]:
    """What this processor can do, by LLVM's names."""
    return [name for name, has_it in llvm.get_host_cpu_features().items() if has_it]


def source_digest(modules: list[str]) -> str:
    """A digest of the source of modules and of the constants that they take from others."""
    return hashlib.sha256("".join(map(_module_digest, modules)).encode()).hexdigest()


@functools.cache
def _module_digest(module: str) -> str:
    path = Path(import_module(module).__file__ or "")
    source = path.read_bytes().replace(b"\r\n", b"\n")
    return hashlib.sha256(source + _constants(module)).hexdigest()


def _file_state(module: str) -> tuple[float, int, int]:
    """What changes with a module: when its file was written, its size, and its constants."""
    state = os.stat(sys.modules[module].__file__ or "")
    return state.st_mtime, state.st_size, zlib.crc32(_constants(module))


def _constants(module: str) -> bytes:
    """The constants of a module, also those of other modules: their values are in compiled code."""
    constants = sorted(
        (name, repr(value))
        for name, value in vars(sys.modules[module]).items()
        if isinstance(value, (int, float, str, tuple)) and not name.startswith("__")
    )
    return repr(constants).encode()
