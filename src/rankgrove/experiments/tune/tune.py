"""`tune`: the best parameters for data, by the protocol of Lyzhin et al. (2022), section 4.1."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from rankgrove._version import __version__
from rankgrove.data.dataset import with_features
from rankgrove.data.documents import Documents
from rankgrove.data.sparse_features import Features, dense_blocks
from rankgrove.data.streams import open_for_writing
from rankgrove.errors import DataError, MissingExtraError, ParameterError, refusal, whole_number
from rankgrove.experiments.checks import check_dataset, check_one_of
from rankgrove.experiments.registry import make_estimator
from rankgrove.experiments.tune.progress import TrialProgress
from rankgrove.experiments.tune.spaces import (
    Space,
    check_fixed,
    default_space,
    network_space,
    parse_space,
)
from rankgrove.experiments.tune.studies import Trials, import_optuna, open_study
from rankgrove.experiments.tune.trials import (
    Part,
    Protocol,
    Trial,
    TrialTable,
    best_of,
    make_parts,
    run_trial,
)
from rankgrove.metrics.base import Metric
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.base import Objective
from rankgrove.pictures import html
from rankgrove.pictures.chart import Axis, Chart, Line, Mark, Panel, Points
from rankgrove.pictures.display import Picture
from rankgrove.pictures.palette import AXIS, candidate
from rankgrove.rules import AUTO, Auto, is_auto
from rankgrove.training.checkpoints import gather_callbacks
from rankgrove.training.starting import parameters_type
from rankgrove.training.trainer import EPOCHS, TREES, Unit, unit_of
from rankgrove.trees.binned_data import BinnedData

if TYPE_CHECKING:
    from rankgrove.training.starting import AnyParameters

Sampler = Literal["tpe", "gp"]
# Called after each trial; tuning stops if one returns True.
TrialCallback = Callable[[Trial], "bool | None"]


@dataclass(frozen=True, eq=False)
class Tuned:
    """What tuning found.

    Attributes
    ----------
    best_parameters
        The parameters of the best trial with those that were held, and `n_estimators`, the number
        of trees that validation chose: `Ranker(**best_parameters)`. For a network it is
        `max_epochs`, the number of epochs.
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
        kind = parameters_type(self.best_parameters["objective"])
        everything = kind(**self.best_parameters).as_json()
        chosen = {name: everything[name] for name in self.best_parameters}
        with open_for_writing(path) as stream:
            stream.write((json.dumps(chosen, indent=2) + "\n").encode())

    def fit(self, train: Documents, **options: Any) -> Any:
        """A Ranker, RankNet or LambdaRank with the best parameters, trained.

        `options` are those of its `fit`.
        """
        return make_estimator(self.best_parameters).fit(train, **options)

    def plot(self, *, ax: Any = None) -> Picture:
        """The value of each trial in its order, and the best so far.

        Parameters
        ----------
        ax
            Axes of matplotlib to draw into.
        """
        complete = [trial for trial in self.trials if trial.state == "complete"]
        pruned = [trial for trial in self.trials if trial.state != "complete"]
        counted = (trial.value if trial.state == "complete" else -math.inf for trial in self.trials)
        best = list(accumulate(counted, max))
        marks: list[Mark] = [
            Line([trial.number for trial in self.trials], best, "best so far", AXIS),
            *(
                Points([trial.number for trial in trials], [trial.value for trial in trials],
                       name, look.colour, look.shape)
                for name, trials, look in (
                    ("complete", complete, candidate(0)), ("given up", pruned, candidate(1)),
                )
                if trials
            ),
        ]  # fmt: skip
        axes = Axis("trial"), Axis(self.metric, margin=0.05)
        return Picture(Chart([Panel("", *axes, marks, 420, 220)], "Trials")).drawn_into(ax)

    def _repr_html_(self) -> str:
        parameters = [[name, _shown(value)] for name, value in self.best_parameters.items()]
        parts = [
            html.paragraph(self._headline()),
            html.table(["parameter", "best"], parameters, left=(0, 1)),
            self.plot().to_svg(),
            html.folded("all trials", self.trials._repr_html_()),
        ]
        return "\n".join(parts)

    def __str__(self) -> str:
        lines = (f"  {name} = {_shown(value)}" for name, value in self.best_parameters.items())
        return "\n".join([self._headline(), *lines])

    def _headline(self) -> str:
        best = self.trials.best
        number = unit_of(self.best_parameters["objective"]).count(best.n_trees)
        return (
            f"{self.metric} {self.best_value:.4f} with {number} in trial "
            f"{best.number} of {len(self.trials):,}"
        )


def tune(
    train: Documents,
    valid: Documents | None = None,
    *,
    objective: str | Objective = AUTO,
    metric: str | Metric = AUTO,
    space: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
    n_random: int = 20,
    n_bayesian: int = 80,
    sampler: Sampler = "tpe",
    prune: bool = True,
    max_trees: int | None = None,
    max_epochs: int | None = None,
    early_stopping_rounds: int | Auto | None = AUTO,
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
        validation. `auto` is what it is to `Ranker`: without a metric YetiRank, measured by
        NDCG@10, with one YetiLoss. `fixed={"metric": ...}` gives the objective another one.
        `ranknet` and `lambdarank` tune networks, with epochs in the place of trees.
    space
        What is drawn: a mapping of parameters to (low, high), (low, high, "log") or lists of
        values. By default that of section 4.1 for the objective; for networks see the guide.
    fixed
        Parameters that are held.
    sampler
        What draws the Bayesian trials: `tpe`, or `gp`, which needs PyTorch.
    prune
        Whether a trial is given up when, to reach the best complete one, it would have to gain
        more than any complete trial has gained after as many trees. Random trials never are.
    max_trees, max_epochs, early_stopping_rounds
        The most trees of a trial, 1000 by default, or epochs of a network, 100 by default, and
        after how many without a better value it ends: 100 trees or 10 epochs by default, None for
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

    Notes
    -----
    Ctrl-C ends tuning: the trial under way is dropped and those before are returned, with
    `interrupted` set; if there is none, KeyboardInterrupt goes on to the caller.

    Examples
    --------
    >>> from rankgrove import make_web_search
    >>> train, valid = make_web_search(60, 16).split(0.5, 0.5)
    >>> tuned = tune(train, valid, n_random=3, n_bayesian=2, max_trees=5)
    >>> len(tuned.trials), sorted(tuned.best_parameters)[:3]
    (5, ['grower', 'l2_documents', 'learning_rate'])
    >>> model = tuned.fit(train).model_
    >>> model.n_trees == tuned.best_parameters["n_estimators"]
    True
    """
    import_optuna()
    _check_data(train, valid, folds)
    check_sampler(sampler)
    called = gather_callbacks(callbacks)
    n_random = whole_number("n_random", n_random, 0)
    n_trials = n_random + whole_number("n_bayesian", n_bayesian, 0)
    if n_trials == 0:
        raise ParameterError("n_random and n_bayesian must be 1 or more together. Got 0.")
    unit = unit_of(objective)
    most = _most(unit, {TREES.tune_limit: max_trees, EPOCHS.tune_limit: max_epochs})
    rounds = unit.tune_rounds if early_stopping_rounds == AUTO else early_stopping_rounds
    whole_number("early_stopping_rounds", rounds, 1, none=True)
    whole_number("seed", seed, 0)
    drawn, given, base = _make_space(objective, metric, space, fixed or {}, most)
    protocol = Protocol(base, drawn, n_random, sampler, bool(prune), rounds, int(seed))
    watched = base.metrics()[0]
    parts = make_parts(train, valid, folds, watched, int(seed))
    about = _about(protocol, train, valid, len(parts))
    progress = TrialProgress(n_trials, str(watched), unit, shown=verbose)
    with open_study(storage, name, about) as kept:
        trials, interrupted = _run_trials(protocol, parts, n_trials, n_jobs, kept, called, progress)
    table = TrialTable(trials, unit)
    best = table.best
    return Tuned(
        best_parameters={**given, **best.parameters, unit.parameter: best.n_trees},
        best_value=best.value,
        metric=str(watched),
        trials=table,
        interrupted=interrupted,
    )


def _run_trials(
    protocol: Protocol, parts: Sequence[Part], n_trials: int, n_jobs: int | None, kept: Trials,
    callbacks: Sequence[TrialCallback], progress: TrialProgress,
) -> tuple[list[Trial], bool]:  # fmt: skip
    """Trial after trial, to the last one, a callback's word or Ctrl-C; whether it was Ctrl-C."""
    trials: list[Trial] = []
    try:
        finished = kept.finished()[:n_trials]
        trials += map(Trial.from_study, finished)
        _check_draws(protocol, trials, kept.where)
        progress.start(trials)
        while len(trials) < n_trials:
            finished.append(run_trial(protocol, finished, parts, progress.grown, n_jobs))
            kept.add(finished[-1])
            trials.append(Trial.from_study(finished[-1]))
            progress.finished(trials)
            answers = [callback(trials[-1]) for callback in callbacks]
            if any(answers):
                break
    except KeyboardInterrupt:
        # (It may have come between keeping a trial and noting it here.)
        trials = [Trial.from_study(trial) for trial in kept.finished()[:n_trials]]
        if best_of(trials) is None:
            raise
        return trials, True
    finally:
        progress.end()
    return trials, False


def _check_draws(protocol: Protocol, trials: Iterable[Trial], where: str) -> None:
    """Refuse to go on after trials that this protocol would not draw as they were drawn."""
    for trial in trials:
        expected = protocol.drawn_by(trial.number)
        if trial.drawn_by != expected:
            raise DataError(
                f"{where}: the study must go on with the n_random and sampler it was made with. "
                f"Got a trial {trial.number} drawn by {trial.drawn_by!r} in place of "
                f"{expected!r}: choose another file or name for a new study."
            )


def _most(unit: Unit, limits: Mapping[str, Any]) -> int:
    """The trees or epochs of a trial, at most; the limit of another unit is refused."""
    for name, limit in limits.items():
        if name != unit.tune_limit and limit is not None:
            rule = f"be left out for an objective that is trained by {unit.plural}"
            raise refusal(name, rule, limit, advice=f"give {unit.tune_limit}")
    given = limits[unit.tune_limit]
    most: int = whole_number(unit.tune_limit, unit.tune_most if given is None else given, 1)
    return most


def _make_space(
    objective: Any, metric: Any, space: Any, fixed: Any, most: int
) -> tuple[Space, dict[str, Any], AnyParameters]:
    """What is drawn, what is held, and the parameters that a trial starts from."""
    unit, make = unit_of(objective), parameters_type(objective)
    given: dict[str, Any] = {"objective": objective, **check_fixed(fixed, make)}
    if not is_auto(metric):
        parse_metric(metric)
        given["eval_metric" if "metric" in fixed else "metric"] = metric
    if is_auto(objective):
        objective = given["objective"] = make(**given).make_objective().name
    if space is None:
        # Says first what is wrong with what is held.
        make(**given)
        network = unit is EPOCHS
        drawn, held = (network_space(fixed), {}) if network else default_space(objective, fixed)
        given |= held
        base = make(**{**given, unit.parameter: most})
        if not drawn:
            got = "all parameters of the default one held"
            raise refusal("space", "leave something to draw", got=got)
    else:
        both = [key for key in space if key in fixed] if isinstance(space, Mapping) else []
        if both:
            raise refusal(both[0], "be held or drawn", got="it in fixed and in space")
        base = make(**{**given, unit.parameter: most})
        drawn = parse_space(space, base)
    return drawn, given, base


def _about(
    protocol: Protocol, train: Documents, valid: Documents | None, n_parts: int
) -> dict[str, Any]:
    """What a study is about, as JSON: what must not change while it lasts."""
    everything = protocol.base.as_json()
    if everything.pop("eval_metric") is None and everything["metric"] != AUTO:
        # What the objective optimises is what validation measures.
        del everything["metric"]
    return {
        "versions": {
            "rankgrove": __version__,
            "optuna": import_optuna().__version__,
            # What else may change what a network comes to.
            **({"torch": version("torch")} if protocol.unit is EPOCHS else {}),
        },
        "data": {
            "train": _fingerprint(train),
            **({} if valid is None else {"valid": _fingerprint(valid)}),
        },
        # Which an objective that is left open follows.
        "metric": str(protocol.base.metrics()[0]),
        "objective": everything.pop("objective"),
        "space": {name: entry.as_json() for name, entry in protocol.space.items()},
        "protocol": {
            protocol.unit.tune_limit: everything.pop(protocol.unit.parameter),
            "early_stopping_rounds": protocol.rounds,
            "prune": protocol.prune,
            "folds": n_parts if valid is None else None,
            "seed": protocol.seed,
        },
        "parameters": everything,
    }


def _fingerprint(data: Documents) -> str:
    """Other data have, as good as always, another one."""
    digest = hashlib.blake2b("\n".join(data.feature_names).encode(), digest_size=8)
    arrays: list[Any]
    if isinstance(data, BinnedData):
        arrays = [data.matrix.codes, data.bins.edges]
    else:
        arrays = []
        _add_features(digest, with_features(data, "tune").features)
    arrays += [data.labels, data.offsets, data.weights, data.base_scores]
    # Studies of data without any know nothing of these.
    arrays += [] if data.document_weights is None else [data.document_weights]
    for name, labels in data.more_labels.items():
        digest.update(name.encode())
        arrays.append(labels)
    if data.levels:
        digest.update(repr(data.levels).encode(errors="backslashreplace"))
    for array in arrays:
        part = np.empty(0) if array is None else np.ascontiguousarray(array)
        digest.update(f"{part.shape}{part.dtype.str}".encode())
        digest.update(part.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _add_features(digest: Any, features: Features) -> None:
    """Have a digest take features as one dense array."""
    digest.update(f"{features.shape}{features.dtype.str}".encode())
    for block in dense_blocks(features):
        digest.update(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)


def _check_data(train: Any, valid: Any, folds: Any) -> None:
    check_dataset("train", train, binned=True)
    if valid is not None:
        check_dataset("valid", valid, binned=True)
        if folds is not None:
            raise ParameterError("validation must be by valid= or by folds=. Got both.")
    whole_number("folds", folds, 2, train.n_queries, none=True)


def check_sampler(sampler: Any) -> None:
    """Refuse a sampler that does not exist, or that lacks the package it needs."""
    check_one_of("sampler", sampler, get_args(Sampler))
    if sampler == "gp" and importlib.util.find_spec("torch") is None:
        raise MissingExtraError(
            "sampler 'gp' needs the package 'torch', which is not installed. Install it with: pip "
            "install torch; or take sampler 'tpe'."
        )


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
