"""`DaskRanker`: a Ranker that trains on the workers of a Dask cluster, to the same bits."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any, Self

from dask.distributed import Client

from rankgrove.distributed.dask_run import evaluate_on, follow_training, is_frame
from rankgrove.distributed.workers_ranker import WorkersRanker
from rankgrove.errors import refusal
from rankgrove.model.model import Model
from rankgrove.training.base import BaseModel
from rankgrove.training.run import Callback


class DaskRanker(WorkersRanker):
    """A Ranker that trains on the workers of a Dask cluster.

    Its model is that of `Ranker` on the same data, to the bit, for any number of workers. Needs
    the extra `dask`. Parameters and attributes are those of `Ranker`; `n_jobs` is the number of
    threads of each worker, by default those that Dask gives it.
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        valid: Any = None,
        client: Client | str | None = None,
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
            Data files that the workers can open: a path, a pattern such as "train/*.parquet", or
            several of them; or a Dask data frame. The order of all rows is that of the names of
            files, and of the rows in them.
        y
            Not used: files and frames have a column of labels.
        valid
            Validation sets, each as X: one, a list of frames, or a mapping of names to them. A list
            of paths is one set.
        client
            A `dask.distributed.Client`, or the address of a scheduler; by default the client that
            is there.
        max_restarts
            How often training goes on with the workers that are left after some were lost.
        callbacks, checkpoint, checkpoint_every
            As for `Ranker.fit`; callbacks are called here, and the checkpoint is written here.
        resume, base_model
            As for `Ranker.fit`.
        ports
            The ports that workers may open for each other, as "9000-9100"; by default any. With
            "dask" they open none, and talk over the connections of Dask, which takes longer.
        reading
            How files and frames are read: label, qid, weight, base_score, document_weight,
            features, split_queries and so on, as for `read_data` and `from_frame`.

        Notes
        -----
        Ctrl-C ends training: `model_` then has the trees so far, and KeyboardInterrupt goes on to
        the caller.
        """
        if y is not None:
            rule = "be left out, as files and frames have a column of labels"
            raise refusal("y", rule, got=type(y).__name__)
        run = follow_training(
            self.parameters(), X, valid=valid, client=client, max_restarts=max_restarts,
            callbacks=callbacks, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
            resume=resume, base_model=base_model, ports=ports, n_jobs=self.n_jobs,
            verbose=self.verbose, reading=reading,
        )  # fmt: skip
        return self._keep_run(run)

    def predict(self, X: Any, *, n_trees: int | None = None, base_scores: Any = None) -> Any:
        """The score of each document; of a Dask frame a Dask series, partition by partition.

        `base_scores` of a Dask frame is the name of a column.
        """
        if not is_frame(X):
            return super().predict(X, n_trees=n_trees, base_scores=base_scores)
        return X.map_partitions(
            _score_partition, self._fitted(), n_trees, base_scores, meta=("score", "float64")
        )

    def evaluate(
        self,
        X: Any,
        metrics: Any = None,
        *,
        client: Client | str | None = None,
        max_restarts: int = 3,
        ports: str | None = None,
        **reading: Any,
    ) -> dict[str, float]:
        """The means of metrics on files or a Dask frame, as `evaluate` gives them, to the bit.

        `metrics` are by default those of the parameters; the other arguments are those of `fit`.
        """
        return evaluate_on(
            X, self._fitted(), self._metrics(metrics), client=client, max_restarts=max_restarts,
            ports=ports, n_jobs=self.n_jobs, reading=reading,
        )  # fmt: skip


def _score_partition(frame: Any, model: Any, n_trees: int | None, base_scores: Any) -> Any:
    import pandas as pd  # noqa: PLC0415 (a Dask frame has it)

    base = frame[base_scores] if isinstance(base_scores, str) else base_scores
    scores = model.predict(frame, n_trees=n_trees, base_scores=base, n_jobs=1)
    return pd.Series(scores, index=frame.index, name="score")
