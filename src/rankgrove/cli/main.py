"""The `rankgrove` command: its commands, and what its exit codes and errors look like.

0 done, 1 the work failed, 2 the call was wrong, 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rankgrove.cli.console import BROKEN_PIPE, FAILED, INTERRUPTED, MISUSED, PROGRAM, say
from rankgrove.cli.interrupts import watch_interrupts
from rankgrove.errors import ParameterError, RankgroveError

# Every command and the first line of its help. Its function has this name, in a module of this name
# that is imported when it is called: so that no command waits for the imports of another.
COMMANDS = {
    "quickstart": "Start here: make a small data set, train a model on it and measure it.",
    "inspect": "Show what is in a model or in a data file, and what in the data is worth a look.",
    "train": "Train a model on a data file.",
    "tune": "Find the best parameters of training for a data file.",
    "cv": "Cross-validate by query: each is scored by a model that has not seen it.",
    "score": "Score documents with a model, in the order of the data.",
    "evaluate": "Measure a model or scores: the mean of each metric over the queries.",
    "compare": "Compare models, files of scores and features on the same queries.",
    "report": "Show in one page which queries changed, what moved in them, and why.",
    "combine": "Combine rankers: the weights that maximise a metric.",
    "optimality": "Test whether a model is at a local maximum of a metric.",
    "explain": "Show what a model rests on, or why documents stand where they do.",
    "plot": "Draw a picture: of training, a comparison, one query, or what a model rests on.",
