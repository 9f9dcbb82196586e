"""Places that cannot be written, also where the tests run as root."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


def take_write_permission(folder: Path) -> None:
    """Have nobody write to a folder and what is in it."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def respect_modes() -> None:
    """Take from root the right to write what is not writable (CAP_DAC_OVERRIDE), if it is root."""
    if os.getuid() == 0:
        ctypes.CDLL(None).prctl(24, 1)
