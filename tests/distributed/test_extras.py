"""Rankers whose engine is not installed say what to install."""

import sys

import pytest

from rankgrove import distributed
from rankgrove.errors import MissingExtraError


@pytest.mark.parametrize(
    ("name", "module", "package", "extra"),
    [("SparkRanker", "spark_", "pyspark", "spark"), ("DaskRanker", "dask_", "dask", "dask")],
)
def test_a_ranker_without_its_engine_says_what_to_install(
    name, module, package, extra, monkeypatch
):
    for loaded in [each for each in sys.modules if each.startswith(f"{distributed.__name__}.")]:
        if loaded.rpartition(".")[2].startswith(module):
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'rankgrove\[{extra}\]'"):
        getattr(distributed, name)
