"""How much memory there is, and what to say where it is not enough."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from rankgrove.data.rows import physical_memory
from rankgrove.errors import DataError

# Below these, files of a process say what it may use: of version 2 of cgroups, and of version 1.
_GROUPS = Path("/sys/fs/cgroup")
_LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


_allowance: ContextVar[int | None] = ContextVar("_allowance", default=None)


class NotEnoughMemoryError(DataError):
    """The work would not fit into memory, and was not begun."""


@contextmanager
def memory_allowance(n_bytes: int | None) -> Iterator[None]:
    """Work as if the process may have so many bytes in all, where whoever runs it limits it."""
    before = _allowance.set(n_bytes)
    try:
        yield
    finally:
        _allowance.reset(before)


def available_memory() -> int:
    """The bytes that this process can still take, by the system, its cgroups and its limits."""
    bounds = [_of_system(), *_of_groups(), *_of_process(), *_of_allowance()]
    return max(0, min(bounds))


def check_memory(needed: int, available: int, advice: str) -> None:
    """Refuse before the work what would end in being killed."""
    if needed > available:
        raise NotEnoughMemoryError(
            f"the work must fit into memory. It needs {size_in_words(needed)}, here are "
            f"{size_in_words(available)}: {advice}."
        )


def size_in_words(n_bytes: float) -> str:
    """So many bytes in words.

    >>> size_in_words(19.2e9), size_in_words(12_345_678)
    ('19 GB', '12.3 MB')
    """
    return f"{n_bytes / 1e9:.2g} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.3g} MB"


def _of_system() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(free.split()[1]) * 1024
    except (OSError, ValueError, StopIteration, IndexError):
        return physical_memory()


def _of_groups() -> list[int]:
    """What the cgroups of this process leave, those above it included."""
    folders = {_GROUPS, _GROUPS / "memory"}
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        root = _GROUPS / "memory" if "memory" in controllers.split(",") else _GROUPS
        place = root / path.lstrip("/")
        folders |= {place, *(above for above in place.parents if above.is_relative_to(root))}
    return [rest for folder in folders for rest in _rest_of(folder)]


def _rest_of(folder: Path) -> list[int]:
    rests = []
    for limit, usage in _LIMITS:
        try:
            most = int((folder / limit).read_text(encoding="ascii"))
            used = int((folder / usage).read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue  # there is none, or it says "max"
        rests.append(most - used + _cached(folder))
    return rests


def _cached(folder: Path) -> int:
    """What a group has used for files and would give back."""
    try:
        lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        numbers = dict(line.split()[:2] for line in lines)
        return int(numbers.get("inactive_file", numbers.get("total_inactive_file", 0)))
    except (OSError, ValueError):
        return 0


def _of_allowance() -> list[int]:
    """What the allowance leaves besides the memory that is in use."""
    most = _allowance.get()
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError):
        return [] if most is None else [most]
    return [] if most is None else [most - pages * os.sysconf("SC_PAGE_SIZE")]


def _of_process() -> list[int]:
    """What `ulimit -v` leaves."""
    try:
        import resource  # noqa: PLC0415 (not there on Windows)

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return []
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return [most - pages * os.sysconf("SC_PAGE_SIZE")]
    except (ImportError, OSError, ValueError):
        return []
