"""Build the documents, or serve them while they are written, by Zensical.

python tools/docs.py build     # into site/; a warning, also about a docstring, is an error
python tools/docs.py serve
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# It finds the extension `formulas` beside this file.
_START = "import sys; sys.path.insert(0, 'tools'); from zensical.main import cli; cli()"


def main() -> int:
    command = sys.argv[1] if len(sys.argv) > 1 else "build"
    start = [sys.executable, "-c", _START, command]
    if command != "build":
        return subprocess.run([*start, *sys.argv[2:]], cwd=ROOT, check=False).returncode
    done = subprocess.run(
        [*start, "--strict", "--clean"], cwd=ROOT, check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    # Zensical goes on where a docstring cannot be read as it is meant.
    warned = "griffe:" in done.stdout
    print(done.stdout if warned or done.returncode else f"Built {ROOT / 'site'}")
    return done.returncode or int(warned)


if __name__ == "__main__":
    sys.exit(main())
