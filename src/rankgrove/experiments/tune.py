"""`tune`: the best parameters for data, by the protocol of Lyzhin et al. (2022), section 4.1."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TextIO, get_args

import numpy as np

from rankgrove.boosting.parameters import Parameters
from rankgrove.boosting.progress import clock_time
from rankgrove.data.dataset import Dataset
from rankgrove.data.streams import open_for_writing
from rankgrove.errors import (
    DataError,
    MissingExtraError,
    ParameterError,
    unknown_name,
    whole_number,
)
from rankgrove.experiments.spaces import Space, check_fixed, default_space, parse_space
from rankgrove.experiments.studies import Trials, import_optuna, open_study
from rankgrove.experiments.trials import (
    Part,
    Protocol,
    Trial,
    TrialTable,
    make_parts,
    run_trial,
)
from rankgrove.metrics.base import Metric
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.base import Objective

if TYPE_CHECKING:
    from rankgrove.estimators import Ranker

Sampler = Literal["tpe", "gp"]
# Called after each trial; tuning stops if one returns True.
TrialCallback = Callable[[Trial], "bool | None"]

_SECONDS_BETWEEN_LINES = 5.0


@dataclass(frozen=True, eq=False)
class Tuned:
    """What tuning found.

    Attributes
    ----------
    best_parameters
        The parameters of the best trial with those that were held, and `n_estimators`, the number
        of trees that validation chose: `Ranker(**best_parameters)`.
    best_value
        The metric on validation with them.
    metric
        Its name.
    trials
        All trials; prints as a table, with `to_frame`, `to_dict` and `to_markdown`.
    interrupted
        Whether Ctrl-C ended tuning before its last trial.
    """

    best_parameters: dict[str, Any]
    best_value: float
    metric: str
    trials: TrialTable
    interrupted: bool = False

    def save(self, path: str | PathLike[str]) -> None:
        """Write the best parameters to a JSON file: `rankgrove train --params FILE` takes it."""
        everything = Parameters(**self.best_parameters).as_json()
        chosen = {name: everything[name] for name in self.best_parameters}
        with open_for_writing(path) as stream:
            stream.write((json.dumps(chosen, indent=2) + "\n").encode())

    def fit(self, train: Dataset, **options: Any) -> Ranker:
        """A Ranker with the best parameters, trained; `options` are those of `Ranker.fit`."""
        from rankgrove.estimators import Ranker  # noqa: PLC0415 (brings scikit-learn)

        return Ranker(**self.best_parameters).fit(train, **options)

    def __str__(self) -> str:
        best = self.trials.best
        lines = [
            f"{self.metric} {self.best_value:.4f} with {best.n_trees:,} trees in trial "
            f"{best.number} of {len(self.trials):,}",
            *(f"  {name} = {_shown(value)}" for name, value in self.best_parameters.items()),
        ]
        return "\n".join(lines)


def tune(
    train: Dataset,
    valid: Dataset | None = None,
    *,
    objective: str | Objective = "lambdamart",
    metric: str | Metric = "ndcg@10",
    space: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    n_random: int = 20,
    n_bayesian: int = 80,
    sampler: Sampler = "tpe",
    prune: bool = True,
    max_trees: int = 1000,
    early_stopping_rounds: int | None = 100,
    folds: int | None = None,
    storage: Any = None,
    name: str = "rankgrove",
    seed: int = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
    callbacks: Iterable[TrialCallback] = (),
) -> Tuned:
    """Search for the parameters that do best on validation.

    First `n_random` trials draw parameters at random, then `n_bayesian` by what the trials before
    have shown. Each trains up to `max_trees` trees; its value is the best on validation, and the
    number of trees that had it belongs to the parameters. The data are binned once for all.

    Parameters
    ----------
    train, valid
        The data to train on, and those to measure on. Without `valid` it is cross-validation.
    objective, metric
        What is trained, and what is maximised: by the objective, where it has a choice, and on
        validation. `fixed={"metric": ...}` gives the objective another one.
    space
        What is drawn: a mapping of parameters to (low, high), (low, high, "log") or lists of
        values. By default that of section 4.1 for the objective.
    fixed
        Parameters that are held.
    sampler
        What draws the Bayesian trials: `tpe`, or `gp`, which needs PyTorch.
    prune
        Whether a trial is given up when, to reach the best complete one, it would have to gain
        more than any complete trial has gained after as many trees. Random trials never are.
    max_trees, early_stopping_rounds
        The most trees of a trial, and after how many without a better value it ends; None for
        never.
    folds
        Cross-validation by query in so many parts, 5 by default: the value is the mean over the
        queries of all of them, and the number of trees the same for all.
    storage, name
        Where trials are kept: a file of SQLite, the URL of a data base, or a storage of Optuna's;
        None for memory. Whoever calls again with the same arguments goes on where the last call
        ended, however it ended, and finds what a single call would have found. More trials may be
        asked for; anything else that differs is refused.
    seed
        Of the search. The seed of training is `random_state`, which `fixed` may hold.
    n_jobs
        Threads; the result is the same for any number.
    verbose
        Whether progress is shown on stderr.
    callbacks
        Each is called after every trial with the `Trial`; tuning stops if one returns True.

    Ctrl-C ends tuning: the trial under way is dropped and those before are returned, with
    `interrupted` set; if there is none, KeyboardInterrupt goes on to the caller.

    Examples
    --------
    >>> from rankgrove import make_web_search
    >>> train, valid = make_web_search(60, 16).split(0.5, 0.5)
    >>> tuned = tune(train, valid, n_random=3, n_bayesian=2, max_trees=5)
    >>> len(tuned.trials), sorted(tuned.best_parameters)[:3]
    (5, ['grower', 'l2', 'learning_rate'])
    >>> model = tuned.fit(train).model_
    >>> model.n_trees == tuned.best_parameters["n_estimators"]
    True
    """
    import_optuna()
    _check_data(train, valid, folds)
    _check_sampler(sampler)
    _check_callbacks(callbacks)
    n_random = whole_number("n_random", n_random, 0)
    n_trials = n_random + whole_number("n_bayesian", n_bayesian, 0)
    if n_trials == 0:
        raise ParameterError("n_random and n_bayesian must be 1 or more together. Got 0.")
    whole_number("max_trees", max_trees, 1)
    whole_number("early_stopping_rounds", early_stopping_rounds, 1, none=True)
    whole_number("seed", seed, 0)
    drawn, given, base = _make_space(objective, metric, space, fixed or {}, max_trees)
    protocol = Protocol(
        base, drawn, n_random, sampler, bool(prune), early_stopping_rounds, int(seed)
    )
    watched = base.metrics()[0]
    parts = make_parts(train, valid, folds, watched, int(seed))
    about = _about(protocol, train, valid, len(parts))
    run = _Run(protocol, parts, n_trials, n_jobs)
    with open_study(storage, name, about) as trials:
        run.go(trials, list(callbacks), _Progress(n_trials, str(watched)) if verbose else None)
    best = TrialTable(run.trials).best
    return Tuned(
        best_parameters={**given, **best.parameters, "n_estimators": best.n_trees},
        best_value=best.value,
        metric=str(watched),
        trials=TrialTable(run.trials),
        interrupted=run.interrupted,
    )


class _Run:
    """Trial after trial, to the last one, a callback's word or Ctrl-C."""

    def __init__(
        self,
        protocol: Protocol,
        parts: Sequence[Part],
        n_trials: int,
        n_jobs: int | None,
    ) -> None:
        self._protocol, self._parts, self._n_trials = protocol, parts, n_trials
        self._n_jobs = n_jobs
        self.trials: list[Trial] = []
        self.interrupted = False

    def go(
        self, kept: Trials, callbacks: Sequence[TrialCallback], progress: _Progress | None
    ) -> None:
        try:
            self._load(kept)
            if progress is not None:
                progress.start(self.trials)
            while len(self.trials) < self._n_trials:
                finished = kept.finished()[: len(self.trials)]
                watch = _ignore if progress is None else progress.grown
                trial = run_trial(self._protocol, finished, self._parts, watch, self._n_jobs)
                kept.add(trial)
                self.trials.append(Trial.from_study(trial))
                if progress is not None:
                    progress.finished(self.trials)
                answers = [callback(self.trials[-1]) for callback in callbacks]
                if any(answers):
                    break
        except KeyboardInterrupt:
            self.interrupted = True
            if not any(trial.state == "complete" for trial in self.trials):
                raise
        finally:
            if progress is not None:
                progress.end()

    def _load(self, kept: Trials) -> None:
        """Take the trials that are done; they must be drawn as this protocol would draw them."""
        for trial in map(Trial.from_study, kept.finished()[: self._n_trials]):
            expected = self._protocol.drawn_by(trial.number)
            if trial.drawn_by != expected:
                raise DataError(
                    f"{kept.where}: the study must go on with the n_random and sampler it was made "
                    f"with. Got a trial {trial.number} drawn by {trial.drawn_by!r} in place of "
                    f"{expected!r}: choose another file or name for a new study."
                )
            self.trials.append(trial)


def _ignore(n_trees: int, best: float) -> None:
    """What nobody watches."""


def _make_space(
    objective: Any, metric: Any, space: Any, fixed: Any, max_trees: int
) -> tuple[Space, dict[str, Any], Parameters]:
    """What is drawn, what is held, and the parameters that a trial starts from."""
    given = {"objective": objective, **check_fixed(fixed)}
    watched = parse_metric(metric)
    given |= {"eval_metric": metric} if "metric" in fixed else {"metric": metric}
    if space is None:
        name = Parameters(**given).make_objective().name
        drawn, held = default_space(name, fixed)
        if isinstance(objective, Objective):
            # What belongs to the objective is in it already.
            drawn = {key: entry for key, entry in drawn.items() if key != "mu"}
        given |= held
        base = Parameters(**given, n_estimators=max_trees)
        if not drawn:
            raise ParameterError(
                "space must leave something to draw. Got all parameters of the default one held."
            )
    else:
        both = [key for key in space if key in fixed] if isinstance(space, Mapping) else []
        if both:
            raise ParameterError(f"{both[0]} must be held or drawn. Got it in fixed and in space.")
        base = Parameters(**given, n_estimators=max_trees)
        drawn = parse_space(space, base)
    if base.metrics() != [watched]:
        raise ParameterError(f"metric must be one metric. Got {metric!r}.")
    return drawn, given, base


def _about(
    protocol: Protocol, train: Dataset, valid: Dataset | None, n_parts: int
) -> dict[str, Any]:
    """What a study is about, as JSON: what must not change while it lasts."""
    everything = protocol.base.as_json()
    if everything.pop("eval_metric") is None:
        # What the objective optimises is what validation measures.
        del everything["metric"]
    return {
        "versions": {
            "rankgrove": str(sys.modules[__name__.partition(".")[0]].__version__),
            "optuna": import_optuna().__version__,
        },
        "data": {
            "train": _fingerprint(train),
            **({} if valid is None else {"valid": _fingerprint(valid)}),
        },
        "objective": everything.pop("objective"),
        "metric": str(protocol.base.metrics()[0]),
        "space": {name: entry.as_json() for name, entry in protocol.space.items()},
        "protocol": {
            "max_trees": everything.pop("n_estimators"),
            "early_stopping_rounds": protocol.rounds,
            "prune": protocol.prune,
            "folds": n_parts if valid is None else None,
            "seed": protocol.seed,
        },
        "parameters": everything,
    }


def _fingerprint(data: Dataset) -> str:
    """Other data have, as good as always, another one."""
    digest = hashlib.blake2b("\n".join(data.feature_names).encode(), digest_size=8)
    for array in (data.features, data.labels, data.offsets, data.weights, data.base_scores):
        part = np.empty(0) if array is None else np.ascontiguousarray(array)
        digest.update(f"{part.shape}{part.dtype.str}".encode())
        digest.update(part.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _check_data(train: Any, valid: Any, folds: Any) -> None:
    for name, data in (("train", train), ("valid", valid)):
        if not isinstance(data, Dataset) and (name == "train" or data is not None):
            raise ParameterError(f"{name} must be a Dataset. Got {type(data).__name__}.")
    if valid is not None and folds is not None:
        raise ParameterError("validation must be by valid= or by folds=. Got both.")
    whole_number("folds", folds, 2, train.n_queries, none=True)


def _check_sampler(sampler: Any) -> None:
    if sampler not in get_args(Sampler):
        raise unknown_name("sampler", str(sampler), get_args(Sampler))
    if sampler == "gp" and importlib.util.find_spec("torch") is None:
        raise MissingExtraError(
            "sampler 'gp' needs the package 'torch', which is not installed. Install it with: pip "
            "install torch; or take sampler 'tpe'."
        )


def _check_callbacks(callbacks: Any) -> None:
    if not isinstance(callbacks, Iterable):
        raise ParameterError(f"callbacks must be a list of functions. Got {callbacks!r}.")


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class _Progress:
    """The trials so far, the best and the time left: a line that moves, or one now and then."""

    def __init__(self, n_trials: int, metric: str, stream: TextIO | None = None) -> None:
        self._n_trials, self._metric = n_trials, metric
        self._stream = sys.stderr if stream is None else stream
        self._moves = self._stream.isatty()
        self._trials: list[Trial] = []
        self._before, self._start, self._written = 0, 0.0, 0.0

    def start(self, trials: list[Trial]) -> None:
        self._trials, self._before = list(trials), len(trials)
        self._start = time.monotonic()
        if trials:
            self._write(f"going on after {len(trials):,} trials", force=True)

    def grown(self, n_trees: int, best: float) -> None:
        now = f"{best:.4f} at tree {n_trees:,}"
        self._write("  ".join([*self._parts(), now, *self._left()]))

    def finished(self, trials: list[Trial]) -> None:
        self._trials = trials
        last = trials[-1]
        now = f"last {last.value:.4f} with {last.n_trees:,} trees"
        now += " (pruned)" if last.state == "pruned" else ""
        self._write(
            "  ".join([*self._parts(), now, *self._left()]), force=len(trials) == self._n_trials
        )

    def end(self) -> None:
        if self._moves:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _parts(self) -> list[str]:
        parts = [f"{len(self._trials):,}/{self._n_trials:,} trials"]
        complete = [trial for trial in self._trials if trial.state == "complete"]
        if complete:
            best = TrialTable(complete).best
            parts.append(f"best {self._metric} {best.value:.4f} in trial {best.number:,}")
        return parts

    def _left(self) -> list[str]:
        done = len(self._trials) - self._before
        if done == 0 or len(self._trials) == self._n_trials:
            return []
        each = (time.monotonic() - self._start) / done
        return [f"{clock_time(each * (self._n_trials - len(self._trials)))} left"]

    def _write(self, line: str, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self._written < (0.1 if self._moves else _SECONDS_BETWEEN_LINES):
            return
        self._written = now
        self._stream.write("\r\x1b[K" + line if self._moves else line + "\n")
        self._stream.flush()
