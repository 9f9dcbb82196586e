"""`SparkRanker`: a Ranker that trains in a barrier stage of Spark, to the same bits."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any, Self

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import DoubleType, StructField, StructType

from rankgrove.distributed.requests import Following, check_reading, named_sets
from rankgrove.distributed.spark_frames import (
    READING,
    check_numbers,
    gather_rows,
    is_frame,
    plain_name,
)
from rankgrove.distributed.spark_run import Cluster, run_on_spark
from rankgrove.distributed.tasks import Evaluation
from rankgrove.distributed.workers_ranker import WorkersRanker
from rankgrove.errors import DataError, refusal, unknown_name, whole_number
from rankgrove.estimators.signatures import SparkRankerKeywords
from rankgrove.model.model import Model
from rankgrove.training.base import BaseModel
from rankgrove.training.run import Callback


class SparkRanker(SparkRankerKeywords, WorkersRanker):
    """A Ranker that trains on Spark data frames, in a barrier stage of Python workers.

    Its model is that of `Ranker` on the same rows in the same order, to the bit, for any number of
    workers: queries are in the order of their ids, rows within a query in that of the column
    `order`. Needs the extra `spark`. Parameters and attributes are those of `Ranker`, and:

    Parameters
    ----------
    n_workers
        How many workers there are, each a task of Spark; None for as many as can run at once.
    n_jobs
        Threads of each worker; None for the processors of a task, `spark.task.cpus`.
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        valid: Any = None,
        max_restarts: int = 3,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_every: int = 50,
        resume: str | PathLike[str] | Model | None = None,
        base_model: BaseModel | None = None,
        ports: str | None = None,
        **reading: Any,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X
            A Spark data frame with a row per document.
        y
            Not used: frames have a column of labels.
        valid
            Validation sets, each as X: one, a list of them, or a mapping of names to them.
        max_restarts
            How often training goes on from the trees so far after workers were lost.
        callbacks, checkpoint, checkpoint_every
            As for `Ranker.fit`; callbacks are called here, and the checkpoint is written here.
        resume, base_model
            As for `Ranker.fit`.
        ports
            The ports that workers, and the driver, may open for each other, as "9000-9100"; by
            default any.
        reading
            Which column is what: label, qid, weight, base_score, document_weight, features, as for
            `from_frame`, and order, the column that rows within a query are sorted by. Without it,
            and where its values are equal, they are in the order of the frame's partitions and of
            the rows in them.

        Notes
        -----
        Ctrl-C ends training: `model_` then has the trees so far, and KeyboardInterrupt goes on to
        the caller.
        """
        if y is not None:
            rule = "be left out, as frames have a column of labels"
            raise refusal("y", rule, got=type(y).__name__)
        options = check_reading(reading, READING)
        frames = {"": X, **named_sets(valid, is_frame)}
        following = Following(
            self.parameters(), {name: each for name, each in frames.items() if name},
            cloudpickle.dumps, callbacks=callbacks, checkpoint=checkpoint,
            checkpoint_every=checkpoint_every, resume=resume, base_model=base_model,
            max_restarts=max_restarts, verbose=self.verbose,
        )  # fmt: skip
        for name, frame in frames.items():
            _check_frame("valid" if name else "X", frame)
        cluster, rows = Cluster.of(X), gather_rows(frames, options)
        with following:
            run_on_spark(
                cluster, rows, following.make_task, told=following.told, progress=following.words,
                n_workers=self.n_workers, max_restarts=max_restarts, sets=list(frames),
                n_jobs=self.n_jobs, ports=ports,
            )  # fmt: skip
        return self._keep_run(following.finished())

    def predict(
        self,
        X: Any,
        *,
        n_trees: int | None = None,
        base_scores: Any = None,
        output: str = "score",
    ) -> Any:
        """The score of each document; of a Spark frame that frame with a column of scores more.

        Of a Spark frame `base_scores` is the name of a column, and `output` that of the new one.
        """
        if not is_frame(X):
            return super().predict(X, n_trees=n_trees, base_scores=base_scores)
        model = self._fitted()
        features, base = list(model.feature_names), [] if base_scores is None else [base_scores]
        for role, names in (("feature", features), ("base score", base)):
            for name in names:
                if name not in X.columns:
                    raise DataError(str(unknown_name(f"the {role} column", str(name), X.columns)))
        check_numbers(X, [*features, *base])
        if output in X.columns:
            advice = "pass another output=, or drop the column first"
            raise refusal("output", "be the name of a new column", output, advice=advice)
        score = _scoring(pickle.dumps(model), X.columns, n_trees, base_scores)
        # What is wrong with the arguments is an error here, not of a worker later on.
        nothing = [pa.array([], pa.float32())] * len(X.columns)
        list(score([pa.RecordBatch.from_arrays(nothing, names=X.columns)]))
        schema = StructType([*X.schema.fields, StructField(output, DoubleType(), False)])
        plain = X.toDF(*map(plain_name, range(len(X.columns))))
        return plain.mapInArrow(score, schema)

    def evaluate(
        self,
        X: Any,
        metrics: Any = None,
        *,
        max_restarts: int = 3,
        ports: str | None = None,
        **reading: Any,
    ) -> dict[str, float]:
        """The means of metrics on a Spark frame, as `evaluate` gives them, to the bit.

        `metrics` are by default those of the parameters; the other arguments are those of `fit`.
        """
        _check_frame("X", X)
        whole_number("max_restarts", max_restarts, 0)
        model = self._fitted()
        options = check_reading(reading, READING) | {"features": list(model.feature_names)}
        task = Evaluation(model, self._metrics(metrics))
        values: dict[str, float] = run_on_spark(
            Cluster.of(X), gather_rows({"": X}, options), lambda: task, n_workers=self.n_workers,
            max_restarts=max_restarts, sets=[""], n_jobs=self.n_jobs, ports=ports,
        )  # fmt: skip
        return values


def _check_frame(name: str, data: Any) -> None:
    if not is_frame(data):
        advice = "read files by spark.read, and data in the memory of one machine are for Ranker"
        if isinstance(data, (str, PathLike)):
            advice = "read files by spark.read.parquet or another of its functions"
        raise refusal(name, "be a Spark data frame", got=type(data).__name__, advice=advice)


def _scoring(
    pickled_model: bytes, names: list[str], n_trees: int | None, base_scores: str | None
) -> Any:
    """What Spark runs on batches of columns with these names: it gives them back with scores."""

    def score(batches: Iterable[Any]) -> Iterator[Any]:
        model = pickle.loads(pickled_model)
        for batch in batches:
            table = pa.Table.from_batches([batch]).rename_columns(names)
            base = None if base_scores is None else table[base_scores].to_numpy()
            features = table.select(list(model.feature_names))
            scores = model.predict(features, n_trees=n_trees, base_scores=base, n_jobs=1)
            arrays = [*batch.columns, pa.array(scores, pa.float64())]
            yield pa.RecordBatch.from_arrays(arrays, names=[*names, "score"])

    return score
