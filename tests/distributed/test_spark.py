"""Spark's Python workers train the model of one process to the bit, also if one is killed.

`pytest -m spark` runs these tests: they need Java and the extra `spark`.
"""

import logging
import os
import signal
import sys

import numpy as np
import pytest

pytest.importorskip("pyspark")

from pyspark import BarrierTaskContext, cloudpickle
from pyspark.sql import SparkSession, functions

from rankgrove import Ranker, evaluate, from_frame, make_web_search, to_frame
from rankgrove.distributed import (
    DaskRanker,
    SparkRanker,
    WorkerFailedError,
    WorkerLostError,
    WorkersError,
    tasks,
)
from rankgrove.errors import DataError, ParameterError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The copy keyword is deprecated"),  # in toPandas
]

# Workers cannot import the tests: what they are to run is sent to them.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

PARAMETERS = {"n_estimators": 6, "early_stopping_rounds": 5, "categorical": ["level_7"]}
ROLES = {"weight": "importance", "order": "place"}


@pytest.fixture(scope="module")
def spark():
    """A session in which three tasks can run at once."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[3]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    yield session
    session.stop()


def make_tables(n_queries, seed):
    """Rows in order as a pandas frame, and anyhow."""
    table = to_frame(make_web_search(n_queries, 16, seed=seed))
    table["importance"] = 1.0 + table["qid"] % 3
    table["place"] = np.arange(len(table))
    table["level_7"] = (table["level_7"].fillna(0).abs() % 5).astype("float32")
    return table, table.sample(frac=1.0, random_state=seed)


@pytest.fixture(scope="module")
def tables():
    return make_tables(30, 0)


@pytest.fixture(scope="module")
def valid_tables():
    """All of one query: the other workers have no validation data."""
    return make_tables(1, 1)


@pytest.fixture(scope="module")
def frames(spark, tables, valid_tables):
    """Training data in four partitions, and the validation data; rows are in no order."""
    return spark.createDataFrame(tables[1]).repartition(4), spark.createDataFrame(valid_tables[1])


def local_data(table, **options):
    return from_frame(table.drop(columns="place"), weight="importance", **options)


def file_of(ranker, path):
    ranker.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def wanted(tables, valid_tables, tmp_path_factory):
    """The model file of one process."""
    ranker = Ranker("yetirank", **PARAMETERS).fit(
        local_data(tables[0]), valid=local_data(valid_tables[0])
    )
    return file_of(ranker, tmp_path_factory.mktemp("one") / "model")


def fit(frames, n_workers=2, objective="yetirank", parameters=None, **options):
    ranker = SparkRanker(objective, n_workers=n_workers, **{**PARAMETERS, **(parameters or {})})
    return ranker.fit(frames[0], valid=frames[1], **ROLES, **options)


def assert_nothing_runs(spark):
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_the_model_file_is_that_of_one_process(n_workers, frames, wanted, spark, tmp_path):
    assert file_of(fit(frames, n_workers), tmp_path / "model") == wanted
    assert_nothing_runs(spark)


def test_the_model_file_is_that_of_dask(frames, tables, valid_tables, wanted, tmp_path):
    pytest.importorskip("dask.distributed")
    for name, (table, _) in {"train": tables, "valid": valid_tables}.items():
        table.drop(columns="place").to_parquet(tmp_path / f"{name}.parquet", row_group_size=100)
    ranker = DaskRanker("yetirank", **PARAMETERS).fit(
        tmp_path / "train.parquet", valid=tmp_path / "valid.parquet", client="local:2",
        weight="importance",
    )  # fmt: skip
    assert file_of(ranker, tmp_path / "model") == wanted


def test_rows_are_in_the_order_of_ids_and_of_partitions(spark, tables, tmp_path):
    features = ["count_2", "score_1", "a `dotted` na.me"]
    table = tables[1].rename(columns={"tail_3": features[2]})
    table["qid"] = [f"q{query}" for query in table["qid"]]
    frame = spark.createDataFrame(table[["qid", "label", *features, "place"]]).coalesce(3)
    ranker = SparkRanker(n_workers=2, n_estimators=3).fit(frame, features=features)
    collected = frame.toPandas().sort_values("qid", kind="stable")
    alone = Ranker(n_estimators=3).fit(from_frame(collected, features=features))
    assert file_of(ranker, tmp_path / "model") == file_of(alone, tmp_path / "alone")


def test_scores_stand_beside_the_other_columns(frames, tables, wanted, tmp_path):
    (tmp_path / "model").write_bytes(wanted)
    ranker = SparkRanker.load(tmp_path / "model")
    local = ranker.to_local()
    assert type(local) is Ranker
    scored = ranker.predict(frames[0], n_trees=2, output="mine").orderBy("place").toPandas()
    assert list(scored.columns) == [*frames[0].columns, "mine"]
    np.testing.assert_array_equal(scored["mine"], local.predict(tables[0], n_trees=2))
    with pytest.raises(ParameterError, match=r"output must be the name of a new column.*'label'"):
        ranker.predict(frames[0], output="label")
    with pytest.raises(DataError, match=r"the feature column must be one of .*Got 'score_1'"):
        ranker.predict(frames[0].drop("score_1"))
    with pytest.raises(DataError, match=r"must be numbers or booleans. Got 'score_1' \(string\)"):
        ranker.predict(frames[0].withColumn("score_1", functions.lit("high")))


def test_a_model_on_top_of_scores_takes_a_column_of_them(spark, tables, tmp_path):
    table = tables[0].assign(before=np.linspace(0, 1, len(tables[0])))
    frame = spark.createDataFrame(table)
    features = ["score_1", "count_2"]
    ranker = SparkRanker(n_workers=2, n_estimators=2).fit(
        frame, base_score="before", features=features, order="place"
    )
    data = from_frame(table, base_score="before", features=features)
    alone = Ranker(n_estimators=2).fit(data)
    assert file_of(ranker, tmp_path / "model") == file_of(alone, tmp_path / "alone")
    scored = ranker.predict(frame, base_scores="before").orderBy("place").toPandas()
    np.testing.assert_array_equal(scored["score"], alone.predict(data))


def test_metrics_are_those_of_one_process(frames, tables, wanted, tmp_path):
    (tmp_path / "model").write_bytes(wanted)
    ranker = SparkRanker.load(tmp_path / "model").set_params(n_workers=3)
    metrics = ["ndcg@5", "mrr"]
    data = local_data(tables[0])
    expected = dict(evaluate(data, ranker.to_local().predict(data), metrics))
    assert ranker.evaluate(frames[0], metrics, weight="importance") == expected
    # Two of the workers have no query.
    few = frames[0].where("qid = 3")
    data = local_data(tables[0][tables[0]["qid"] == 3])
    expected = dict(evaluate(data, ranker.to_local().predict(data), metrics))
    assert ranker.evaluate(few, metrics, **ROLES) == expected


def squared_error(scores, labels, offsets, weights, forces, curvatures):
    forces[:] = weights * (labels - scores)
    curvatures[:] = weights


def make_objective(marker, rank, number):
    """Squared error; the process of a worker kills itself, once, when it has come to a tree."""
    calls = []

    def squared_error_once_more(*arguments):
        squared_error(*arguments)
        if marker.exists():
            return
        calls.append(1)
        if len(calls) == number and BarrierTaskContext.get().partitionId() == rank:
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return squared_error_once_more


class KilledWhenSent:
    """Squared error that kills the first process which it is sent to."""

    def __init__(self, marker):
        self.marker, self.__qualname__ = marker, squared_error.__qualname__

    def __reduce__(self):
        return kill_once, (self.marker,)

    def __call__(self, *arguments):
        raise NotImplementedError


def kill_once(marker):
    context = BarrierTaskContext._taskContext
    if context is not None and context.partitionId() == 1 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return squared_error


OF_FUNCTION = {"early_stopping_rounds": None}


@pytest.mark.parametrize(("rank", "number"), [(0, 1), (1, 4), (0, 6)])
def test_training_goes_on_to_the_same_file_when_a_worker_is_killed(
    rank, number, frames, tables, valid_tables, spark, tmp_path, caplog
):
    objective = make_objective(tmp_path / "killed", rank, number)
    with caplog.at_level(logging.WARNING, "rankgrove.distributed"):
        ranker = fit(frames, objective=objective, parameters=OF_FUNCTION)
    assert (tmp_path / "killed").exists()
    alone = Ranker(objective, **{**PARAMETERS, **OF_FUNCTION})
    alone.fit(local_data(tables[0]), valid=local_data(valid_tables[0]))
    assert file_of(ranker, tmp_path / "model") == file_of(alone, tmp_path / "alone")
    (line,) = [each for each in caplog.messages if "restart 1 of 3" in each]
    assert line.startswith(f"worker {rank} at 127.0.0.1:")
    assert (f"after tree {number - 1}" if number > 1 else "before the first tree") in line
    assert_nothing_runs(spark)


def test_training_begins_again_when_a_worker_is_killed_before_it_has_met_the_others(
    frames, tables, valid_tables, tmp_path, caplog
):
    objective = KilledWhenSent(tmp_path / "killed")
    ranker = SparkRanker(objective, n_workers=2, n_estimators=2)
    with caplog.at_level(logging.WARNING, "rankgrove.distributed"):
        ranker.fit(frames[0], **ROLES)
    assert (tmp_path / "killed").exists()
    alone = Ranker(squared_error, n_estimators=2).fit(local_data(tables[0]))
    assert file_of(ranker, tmp_path / "model") == file_of(alone, tmp_path / "alone")


def test_one_error_names_the_lost_worker_where_no_restart_is_allowed(frames, spark, tmp_path):
    objective = make_objective(tmp_path / "killed", 1, 3)
    with pytest.raises(WorkerLostError, match=r"worker 1 at .* after tree 2: .*max_restarts") as e:
        fit(frames, objective=objective, parameters=OF_FUNCTION, max_restarts=0)
    assert "java" not in str(e.value)
    assert_nothing_runs(spark)


def test_bad_data_are_one_clean_error(spark, frames, tables):
    cases = [
        (functions.when(functions.col("place") != 17, functions.col("label")), "label",
         r"rows of queries .* to .*: the label column 'label' must have no missing entry"),
        (functions.when(functions.col("place") != 17, functions.col("qid")), "qid",
         "the qid column 'qid' must have no missing entry. Got 1: fill or drop those rows"),
        (functions.col("score_1").cast("double") * 1e300, "score_1",
         "column 'score_1' must fit into float32"),
        (functions.col("place").cast("double"), "importance", "weights must be one per query"),
    ]  # fmt: skip
    for column, name, problem in cases:
        with pytest.raises(DataError, match=problem) as caught:
            fit((frames[0].withColumn(name, column), frames[1]))
        assert "java" not in str(caught.value)
        assert_nothing_runs(spark)
    with pytest.raises(DataError, match="the data must have at least one row"):
        SparkRanker(n_workers=2).fit(frames[0].where("qid < 0"), **ROLES)
    with pytest.raises(DataError, match="validation set 'few': the data must have at least one"):
        fit((frames[0], {"few": frames[1].where("qid < 0")}))


def test_any_other_error_of_a_worker_is_told_with_its_words(frames):
    def fail(*_):
        raise OSError("the disk is full")

    with pytest.raises(WorkerFailedError, match=r"worker \d of Spark.*OSError: the disk is full"):
        SparkRanker(fail, n_workers=2).fit(frames[0], **ROLES)


def test_what_cannot_be_done_is_refused_before_anything_runs(frames, tables, spark, monkeypatch):
    train, valid = frames

    def refuse(problem, frame=train, error=ParameterError, parameters=None, **options):
        with pytest.raises(error, match=problem):
            SparkRanker(**{"n_workers": 2, **(parameters or {})}).fit(frame, **options)

    refuse(r"n_workers must be at most .*Got 9 and room for 3", parameters={"n_workers": 9})
    refuse("n_workers must be", parameters={"n_workers": 0})
    refuse("X must be a Spark data frame. Got str: read files by spark.read", "train.parquet")
    refuse("X must be a Spark data frame. Got DataFrame: .*for Ranker", tables[0])
    refuse("valid must be a Spark data frame", valid="valid.parquet")
    refuse("y must be left out", y=[1])
    refuse("preferences must be left out over workers", preferences=[(0, 1)])
    refuse("an option of reading must be one of label.*'lable'; did you mean", lable="x")
    refuse("early_stopping_rounds must have a valid", parameters={"early_stopping_rounds": 3})
    refuse("max_restarts must be", max_restarts=-1)
    refuse("the label column must be one of.*'grade'", error=DataError, label="grade")
    refuse("the order column must be one of.*'plaice'", error=DataError, order="plaice")
    text = train.withColumn("title", functions.lit("a"))
    refuse(r"must be numbers or booleans. Got 'title' \(string\)", text, error=DataError)
    refuse(r"the label column 'title' must hold numbers", text, error=DataError, label="title")
    odd = train.withColumn("qid", functions.col("qid").cast("double"))
    refuse("the qid column 'qid' must hold whole numbers or texts", odd, error=DataError)
    narrow = valid.drop("score_1")
    refuse("validation set 'valid': the feature column must be", error=DataError, valid=narrow)
    named = valid.withColumn("qid", functions.lit("a"))
    refuse("column 'qid' must be of the same type in all sets", error=DataError, valid=named)
    stream = spark.readStream.format("rate").load()
    refuse("X must be a frame that has an end. Got a stream", stream)
    monkeypatch.setattr(tasks, "__version__", "99")  # here, not on the workers
    refuse(r"worker \d of Spark must have rankgrove 99", error=WorkersError, **ROLES)


def test_columns_of_other_number_types_in_the_validation_data_are_the_same_numbers(
    frames, wanted, tmp_path
):
    wide = frames[1].select(
        *(functions.col(name).cast("double").alias(name) if name == "score_1" else name
          for name in reversed(frames[1].columns))
    ).withColumn("qid", functions.col("qid").cast("int"))  # fmt: skip
    assert file_of(fit((frames[0], wide)), tmp_path / "model") == wanted


def test_interrupting_keeps_the_trees_so_far(frames, tables, spark, tmp_path):
    def interrupt(run):
        if run.n_steps == 2:
            raise KeyboardInterrupt

    ranker, alone = SparkRanker(n_workers=2, n_estimators=400), Ranker(n_estimators=400)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(frames[0], callbacks=[interrupt], **ROLES)
    assert_nothing_runs(spark)
    with pytest.raises(KeyboardInterrupt):
        alone.fit(local_data(tables[0]), callbacks=[interrupt])
    assert file_of(ranker, tmp_path / "model") == file_of(alone, tmp_path / "alone")


def test_training_goes_on_from_a_checkpoint_to_the_same_file(frames, wanted, spark, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    fit(frames, checkpoint=checkpoint, checkpoint_every=2, callbacks=[lambda r: r.n_steps == 3])
    assert_nothing_runs(spark)
    assert file_of(fit(frames, 3, resume=checkpoint), tmp_path / "model") == wanted
