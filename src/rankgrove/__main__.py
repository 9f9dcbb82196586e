"""`python -m rankgrove` is the `rankgrove` command."""

from rankgrove.cli.main import run

run()
