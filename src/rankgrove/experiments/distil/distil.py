"""Distil: one small model of trees from a large one, or from a mixture, by its scores.

The student is fitted to the scores of its teacher, not to labels: documents need none, and the more
there are, the closer it comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset, default_feature_names, with_features
from rankgrove.data.documents import Documents
from rankgrove.data.joined import join_datasets
from rankgrove.data.matrix import features_of
from rankgrove.errors import DataError, check_names, refusal, whole_number
from rankgrove.experiments.checks import check_share
from rankgrove.experiments.compare.compare import compare
from rankgrove.experiments.distil.distilled import STUDENT, TEACHER, Distilled
from rankgrove.experiments.distil.made_documents import make_documents
from rankgrove.experiments.distil.speed import measure_speed
from rankgrove.experiments.distil.student import HELD, OBJECTIVE, STUDENT_DEFAULTS
from rankgrove.metrics.base import Floats, Metric
from rankgrove.metrics.evaluate import DEFAULT_METRICS, measure_dataset
from rankgrove.metrics.spec import parse_metrics
from rankgrove.model.base import ScoringModel, load
from rankgrove.model.members import centred, spread_of
from rankgrove.model.model import Model
from rankgrove.rules import AUTO, Auto, is_auto, options_of
from rankgrove.training.checkpoints import gather_callbacks
from rankgrove.training.measures import SQUARED_ERROR, LossMeasure
from rankgrove.training.run import Callback, Run
from rankgrove.training.trees import start_trees

# Documents are made until there are about so many, but at most so many of each.
_ENOUGH_DOCUMENTS, _MOST_TURNS = 100_000, 10
# The chance of a feature of a made document to have another one's value.
_SHARE = 0.5

# Of queries, so that a part can be held out and compared.
_LEAST_QUERIES = 5

# Where the notes of a student have what it came from.
DISTILLED_FROM = "distilled_from"
HELD_OUT = "held out"


@dataclass(frozen=True)
class _Targets:
    """The scores of a teacher, as a student has to give them.

    Attributes
    ----------
    teacher
        Whose scores they are.
    spread
        Of its scores on the documents that exist: the unit of targets.
    """

    teacher: ScoringModel
    spread: float
    n_jobs: int | None

    @classmethod
    def on(cls, teacher: ScoringModel, data: Dataset, n_jobs: int | None) -> _Targets:
        scores = teacher.predict(data, n_jobs=n_jobs)
        if not np.isfinite(scores).all():
            row = int((~np.isfinite(scores)).argmax())
            raise DataError(
                f"the scores of the teacher must be finite. Got {scores[row]} at row {row}: look "
                f"at that document with why, or leave it out."
            )
        spread = spread_of(scores, data.offsets)
        if not spread > 0:
            raise DataError(
                f"the teacher must tell documents of a query apart. Got equal scores within each "
                f"of {data.n_queries} queries: is it trained, and are these its data?"
            )
        return cls(teacher, spread, n_jobs)

    def of(self, data: Dataset) -> Floats:
        """Centred in each query, by the spread: finite, as that is the root of a mean square."""
        scores = self.teacher.predict(data, n_jobs=self.n_jobs)
        return centred(scores, data.offsets) / self.spread


def distil(
    model: ScoringModel | str | PathLike[str] | Any,
    data: Documents,
    *,
    valid: Documents | None = None,
    held_out: float = 0.2,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    parameters: Mapping[str, Any] | None = None,
    made: int | Auto = AUTO,
    seed: int = 0,
    callbacks: Iterable[Callback] = (),
    verbose: bool = False,
    n_jobs: int | None = None,
) -> Distilled:
    """One small model of trees that ranks as a large one does, for serving.

    With t_i the score of the teacher for document i less the mean of its query, by the spread of
    all of these, and z_i that of the student, trees are grown for the least
    sum_q sum_i (t_i - z_i - mean_q(t - z))^2 / 2.

    Parameters
    ----------
    model
        The teacher: whatever scores documents, as a model of many trees, a network, a mixture of
        both, its file, or an estimator that is fitted.
    data
        Documents with features, for the teacher to score. Labels are not looked at: all documents
        that there are will do, judged or not, and more of them bring the student closer.
    valid
        Documents that the student is not fitted to, by which its training stops and on which it is
        compared with its teacher; best such that the teacher has not seen either. By default a
        share of the queries of `data` is held out.
    held_out
        That share, where `valid` is not given.
    metrics
        Of the comparison with the teacher, where documents held out have labels.
    parameters
        Of training, by name, in place of `STUDENT_DEFAULTS`; not the objective.
    made
        How many further documents to make of each, of it and another one of its query, for the
        teacher to score; by default up to 10 where data are small, and none from 100,000 on.
    seed
        Of the queries held out, and of the documents made.
    callbacks
        As for `Ranker.fit`.
    verbose
        Whether progress is shown on stderr.
    n_jobs
        Threads; the student has the same bits for any number.

    Notes
    -----
    Ctrl-C ends training: the student has the trees so far, with `interrupted` set; if there is
    none, KeyboardInterrupt goes on to the caller.

    Examples
    --------
    >>> from rankgrove import Ranker, make_web_search
    >>> train, valid = make_web_search(80, 16, mean_documents=20).split(0.7, 0.3)
    >>> teacher = Ranker(members=4, n_estimators=30).fit(train).model_
    >>> distilled = distil(teacher, train, valid=valid, parameters={"n_estimators": 40})
    >>> teacher.n_trees, distilled.model.n_trees
    (120, 40)
    >>> distilled.agreement > 0.75
    True
    """
    teacher = _as_model(model)
    chosen = parse_metrics(metrics)
    options = _student_parameters(teacher, data, parameters or {})
    called = gather_callbacks(callbacks)
    seed = whole_number("seed", seed, 0)
    data, rest = _parts(teacher, data, valid, held_out, seed)
    turns = _turns(made, data.n_documents)
    targets = _Targets.on(teacher, data, n_jobs)
    wanted = targets.of(rest)
    run = _start(targets, data, rest, wanted, turns, options, seed, n_jobs)
    run.run(called, verbose=verbose)
    if run.interrupted and run.n_steps == 0:
        raise KeyboardInterrupt
    student = _noted(run.make_model(), teacher, data.n_documents, turns)
    scores = {
        STUDENT: student.predict(rest, n_jobs=n_jobs),
        TEACHER: teacher.predict(rest, n_jobs=n_jobs),
    }
    comparison = None
    if _is_judged(rest):
        comparison = compare(rest, scores, chosen, baseline=TEACHER, alternative="two-sided")
    return Distilled(
        model=student,
        comparison=comparison,
        agreement=_agreement(rest, wanted, scores[STUDENT], n_jobs),
        explained=_explained(wanted, scores[STUDENT], rest),
        speed=measure_speed({TEACHER: teacher, STUDENT: student}, rest),
        sizes={TEACHER: size_of(teacher), STUDENT: size_of(student)},
        interrupted=run.interrupted,
    )


def _as_model(given: Any) -> ScoringModel:
    model = load(given) if isinstance(given, (str, PathLike)) else getattr(given, "model_", given)
    if not isinstance(model, ScoringModel):
        raise refusal(
            "model", "be a model, its file, or an estimator that is fitted",
            got=type(model).__name__, advice="fit it first, or load it with rankgrove.load",
        )  # fmt: skip
    if model.schema.needs_base_scores:
        raise refusal(
            "model", "score by features alone to be distilled", got="one on top of base scores",
            advice="train its base model and it as one, with base_model=",
        )  # fmt: skip
    return model


def check_student_names(given: Mapping[str, Any]) -> None:
    """Refuse parameters that a student does not have, or that are not for the caller to say."""
    check_names("a parameter of a student", given, options_of(Parameters))
    for name in HELD:
        if name in given:
            rule = f"be left out: a student is trained by {OBJECTIVE} to its teacher's scores"
            raise refusal(name, rule, given[name])


def _student_parameters(
    teacher: ScoringModel, data: Documents, given: Mapping[str, Any]
) -> Parameters:
    """The parameters of the student: those given, and defaults; its categories are the teacher's.

    A feature whose values are no numbers is a category by its type, and need not be named.
    """
    check_student_names(given)
    numbered = [feature for feature in teacher.schema.categories if feature not in data.levels]
    categorical = {"categorical": numbered} if numbered else {}
    return Parameters(objective=OBJECTIVE, **{**STUDENT_DEFAULTS, **categorical, **given})


def _parts(
    teacher: ScoringModel, data: Documents, valid: Documents | None, held_out: float, seed: int
) -> tuple[Dataset, Dataset]:
    """What the student is fitted to, and what is held out, both with the teacher's features."""
    check_share("held_out", held_out)
    data = _with_names(teacher, data, "data")
    if valid is not None:
        return data, _with_names(teacher, valid, "valid")
    if data.n_queries < _LEAST_QUERIES:
        raise DataError(
            f"data must have at least {_LEAST_QUERIES} queries to hold some out. Got "
            f"{data.n_queries}: give more, or documents of other queries as valid."
        )
    train, rest = data.split(1.0 - held_out, held_out, seed=seed)
    return train, rest


def _with_names(teacher: ScoringModel, data: Documents, name: str) -> Dataset:
    """The data, by the names that the teacher has for its features, without base scores."""
    found = with_features(data, f"{name} of distil")
    features_of(found, teacher.feature_names, teacher.schema.levels)
    names, default = teacher.feature_names, default_feature_names(teacher.n_features)
    return replace(
        found, feature_names=found.feature_names if names == default else names, base_scores=None
    )


def _turns(made: Any, n_documents: int) -> int:
    """How many documents are made of each."""
    if is_auto(made):
        return min(_MOST_TURNS, max(0, _ENOUGH_DOCUMENTS // n_documents - 1))
    return int(whole_number("made", made, 0, also=repr(AUTO)))


def _start(
    targets: _Targets,
    data: Dataset,
    rest: Dataset,
    wanted: Floats,
    turns: int,
    parameters: Parameters,
    seed: int,
    n_jobs: int | None,
) -> Run:
    """A run of the student that has grown no tree yet; its error is measured in parts of all."""
    made = [make_documents(data, turn, _SHARE, seed) for turn in range(turns)]
    everything = join_datasets([replace(data, document_ids=None, document_weights=None), *made])
    everything = replace(everything, labels=targets.of(everything).astype(np.float32))

    def error(wanted: Floats, scores: Floats) -> float:
        return spread_of(wanted - scores, rest.offsets) ** 2

    measures = LossMeasure(SQUARED_ERROR, error, {HELD_OUT: wanted})
    return start_trees(everything, {HELD_OUT: rest}, parameters, measures=measures, n_jobs=n_jobs)


def _noted(student: Model, teacher: ScoringModel, n_documents: int, turns: int) -> Model:
    """The student with notes of what it came from."""
    origin = {
        "checksum": teacher.checksum,
        "kind": teacher.noun,
        **size_of(teacher),
        "documents": n_documents,
        "made_documents": turns * n_documents,
    }
    return replace(student, notes=student.notes | {DISTILLED_FROM: origin})


def size_of(model: ScoringModel) -> dict[str, int]:
    """How large a model is: its trees and their leaves, and the weights of networks."""
    parts = getattr(model, "parts", (model,))
    tops = [top for top in (getattr(model, "top", None),) if top is not None]
    trees = [part for part in (*parts, *tops) if isinstance(part, Model)]
    return {
        "trees": sum(part.n_trees for part in trees),
        "leaves": sum(len(part.ensemble.value) for part in trees),
        "weights": sum(int(getattr(part, "n_weights", 0)) for part in parts),
    }


def _is_judged(data: Dataset) -> bool:
    """Whether labels differ in two queries or more: they can be compared on."""
    highest = np.maximum.reduceat(data.labels, data.offsets[:-1])
    lowest = np.minimum.reduceat(data.labels, data.offsets[:-1])
    return int(np.count_nonzero(highest > lowest)) > 1


def _agreement(data: Dataset, wanted: Floats, scores: Floats, n_jobs: int | None) -> float:
    """Kendall's tau between the two rankings, in the mean of queries; NaN where none has a pair."""
    truth = replace(data, labels=wanted.astype(np.float32), weights=None, document_weights=None)
    try:
        return measure_dataset(truth, scores, "tau", n_jobs=n_jobs)["tau"]
    except DataError:
        return float("nan")


def _explained(wanted: Floats, scores: Floats, data: Dataset) -> float:
    """The share of the variance of the teacher's scores within queries that the student has."""
    all_of_it = spread_of(wanted, data.offsets) ** 2
    left = spread_of(wanted - scores, data.offsets) ** 2
    return 1.0 - left / all_of_it if all_of_it > 0 else float("nan")
