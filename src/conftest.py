"""Which modules have no examples to run, as what they need is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyspark") else ["rankgrove/distributed/spark_*.py"]
