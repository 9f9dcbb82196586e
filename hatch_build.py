# ruff: noqa: PLC0415 (what it builds is imported from the sources)
"""Compiles kernels into the wheel, so that nobody waits for them on first use.

`RANKGROVE_BUILD_KERNELS` says which: `common`, those of the common commands for the processor that
builds (what `pip install .` does); `all`, all of them for all levels of processors, which a release
has; `none`. An editable install has none: sources that are edited compile on first use.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "RANKGROVE_BUILD_KERNELS"
CHOICES = ("common", "all", "none")


class KernelsHook(BuildHookInterface):
    """Adds files of compiled kernels to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say what goes into the wheel."""
        choice = os.environ.get(VARIABLE, "common")
        if choice not in CHOICES:
            raise ValueError(f"{VARIABLE} must be one of {', '.join(CHOICES)}, not {choice!r}")
        if version == "editable" or choice == "none":
            return
        source = Path(self.root, "src")
        sys.path.insert(0, str(source))
        try:
            from rankgrove._jit import insides
            from rankgrove._jit.building import build_store
            from rankgrove._jit.caching import processor_features
            from rankgrove._jit.signatures import read_list
            from rankgrove._jit.store import levels_of_this_machine, supported_levels
        finally:
            sys.path.remove(str(source))
        if not insides.SHIPS_KERNELS:
            self.app.display_warning(
                "no kernels are compiled ahead: this version of Numba lacks a name for that"
            )
            return
        listed = read_list()
        levels = list(levels_of_this_machine())
        if choice == "common":
            listed = [each for each in listed if each.is_common]
            levels = supported_levels(processor_features())[:1]
        if not levels:
            self.app.display_warning(f"no kernels are compiled ahead for {platform.machine()}")
            return
        folder = Path(self.directory, "kernels")
        for level in levels:
            path = build_store(listed, level, folder)
            build_data["force_include"][str(path)] = f"rankgrove/_jit/kernels/{path.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
