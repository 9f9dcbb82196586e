"""All formats by name."""

from __future__ import annotations

import os
from types import MappingProxyType

from rankgrove.errors import refusal, unknown_name
from rankgrove.export.c import C
from rankgrove.export.elasticsearch import ELASTICSEARCH
from rankgrove.export.elasticsearch_ltr import ELASTICSEARCH_LTR
from rankgrove.export.format import Format
from rankgrove.export.java import JAVA
from rankgrove.export.javascript import JAVASCRIPT
from rankgrove.export.lightgbm_text import LIGHTGBM
from rankgrove.export.onnx_graph import ONNX
from rankgrove.export.python import PYTHON
from rankgrove.export.ranklib import RANKLIB
from rankgrove.export.solr import SOLR
from rankgrove.export.sql import SQL
from rankgrove.export.vespa import VESPA
from rankgrove.export.xgboost_json import XGBOOST

FORMATS: tuple[Format, ...] = (
    ELASTICSEARCH_LTR,
    ELASTICSEARCH,
    SOLR,
    VESPA,
    ONNX,
    LIGHTGBM,
    XGBOOST,
    JAVA,
    C,
    JAVASCRIPT,
    PYTHON,
    SQL,
    RANKLIB,
)

EXPORT_FORMATS = MappingProxyType({entry.name: entry for entry in FORMATS})


def find_format(to: str | None, path: str | os.PathLike[str]) -> Format:
    """The format of a name, or the one that the name of a file means."""
    if to is not None:
        if to not in EXPORT_FORMATS:
            raise unknown_name("the format to export to", str(to), EXPORT_FORMATS)
        return EXPORT_FORMATS[to]
    name = os.fspath(path).lower()
    for entry in FORMATS:
        if name.endswith(entry.endings or ("/",)):
            return entry
    raise refusal(
        "to", f"be one of {', '.join(EXPORT_FORMATS)} where the file's name does not say it",
        got=f"none for {os.fspath(path)!r}",
    )  # fmt: skip
