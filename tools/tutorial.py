"""Run the commands of docs/tutorial.md, and write what they say, draw and report into docs/.

python tools/tutorial.py           # runs all of it; writes the page, its pictures and the report
python tools/tutorial.py --check   # runs all of it; says where the page is no longer true

A block of code named `console` has commands after `$ ` and below each what it prints.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "tutorial.md"
# What commands write that the documents show, and where: beside the data of the quickstart.
MADE = {
    "scatter.svg": "images/tutorial/scatter.svg",
    "query-996.svg": "images/tutorial/query-996.svg",
    "report.html": "example-report.html",
}
_BLOCK = re.compile(r"^```console\n(.*?)^```\n", re.M | re.S)
# What a clock has measured is no part of what is compared.
_TIME = re.compile(r"\d+(\.\d+)? s\b")


def run_page(text: str, folder: Path) -> str:
    """The page with what its commands print now; times stay if nothing else has changed."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    program = bin_folder / "rankgrove"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rankgrove "$@"\n')
    program.chmod(0o755)
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "96", "NO_COLOR": "1"}
    place = folder

    def renewed(block: re.Match[str]) -> str:
        nonlocal place
        parts = re.split(r"^\$ ", block[1], flags=re.M)[1:]
        said = []
        for part in parts:
            command, _, before = part.partition("\n")
            while command.endswith("\\"):
                more, _, before = before.partition("\n")
                command += "\n" + more
            if command.startswith("cd "):
                place = place / command.removeprefix("cd ").strip()
                said.append(f"$ {command}\n")
                continue
            done = subprocess.run(
                ["/bin/sh", "-c", command], cwd=place, env=environment, text=True, check=True,
                capture_output=True,
            )  # fmt: skip
            output = re.sub(r"[ \t]+$", "", done.stdout, flags=re.M)
            same = _TIME.sub("", output).strip() == _TIME.sub("", before).strip()
            said.append(f"$ {command}\n{before if same else output}")
        text = "\n".join(part.rstrip("\n") + "\n" for part in said)
        return f"```console\n{text}```\n"

    renewed_text = _BLOCK.sub(renewed, text)
    if place != folder:
        shutil.copytree(place, folder / "made")
    return renewed_text


def main() -> int:
    check = "--check" in sys.argv
    before = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        after = run_page(before, folder)
        if check:
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="")
            print("\n".join(lines) or "The page is true.")
            return int(before != after)
        PAGE.write_text(after, encoding="utf-8")
        for source, target in MADE.items():
            (DOCS / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "made" / source, DOCS / target)
            print(DOCS / target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
