"""The names of Numba that it does not document: another version may not have them.

Without one, what it is for is left out: kernels are then compiled as `numba.njit` compiles them, or
are not kept, which is slower, and right. Nothing else of Numba's insides is imported by a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

# Module and name, and the attributes that it must have.
NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "JITCodeLibrary": (
        "numba.core.codegen",
        (
            "_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals",
            "_verify_declare_only_symbols", "enable_object_caching",
        ),
    ),
    "Compiler": ("numba.core.compiler", ("_compile_core",)),
    "BaseFunction": ("numba.core.types.functions", ("get_call_type", "get_impl_key")),
    "BaseContext": ("numba.core.base", ("get_function", "call_internal")),
    "CPUCallConv": (
        "numba.core.callconv", ("get_return_type", "_get_excinfo_argument", "_get_arg_packer"),
    ),
    "Lower": ("numba.core.lowering", ("storevar", "delvar", "getvar", "typeof", "_alloca_var")),
    "Inst": ("numba.core.ir", ("_rec_list_vars",)),
    "Var": ("numba.core.ir", ()),
    "AttributeTemplate": ("numba.core.typing.templates", ()),
    "impl_ret_borrowed": ("numba.core.imputils", ()),
    "rtsys": ("numba.core.runtime", ("initialize",)),
    "CompileResult": ("numba.core.compiler", ("_rebuild", "_reduce")),
    "FunctionCache": ("numba.core.caching", ("load_overload", "save_overload", "flush")),
    "dumps": ("numba.core.serialize", ()),
    "CPUTargetOptions": ("numba.core.cpu", ()),
    "config": ("numba.core", ("BOUNDSCHECK",)),
    "event": ("numba.core", ("start_event", "end_event")),
}  # fmt: skip


def find(name: str) -> Any:
    """One of the names, if this Numba has it with all of its attributes; else None."""
    module, attributes = NAMES[name]
    try:
        value = getattr(import_module(module), name, None)
    except ImportError:
        return None
    return value if all(hasattr(value, each) for each in attributes) else None


JITCodeLibrary, Compiler, CompileResult = map(find, ("JITCodeLibrary", "Compiler", "CompileResult"))
BaseFunction, FunctionCache, dumps = map(find, ("BaseFunction", "FunctionCache", "dumps"))
rtsys, config, Inst, Var = map(find, ("rtsys", "config", "Inst", "Var"))
BaseContext, CPUCallConv, Lower = map(find, ("BaseContext", "CPUCallConv", "Lower"))
event = find("event")

AttributeTemplate, impl_ret_borrowed = find("AttributeTemplate"), find("impl_ret_borrowed")

# Whether tuples can be handed to kernels by their address.
HANDS_ADDRESSES = None not in (AttributeTemplate, impl_ret_borrowed)

# Whether kernels can be made for other kernels alone, and whether compiled ones can be shipped: not
# if nobody can say whether bounds are to be checked.
COMPILES_PARTS = JITCodeLibrary is not None and Compiler is not None
SHIPS_KERNELS = None not in (CompileResult, dumps, config)

_UNDOCUMENTED = {"_nrt", "no_cfunc_wrapper", "no_cpython_wrapper", "forceinline"}


def known_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `numba.njit`, without those that this Numba does not know."""
    known = find("CPUTargetOptions")
    return {
        name: value
        for name, value in options.items()
        if name not in _UNDOCUMENTED or hasattr(known, name)
    }
