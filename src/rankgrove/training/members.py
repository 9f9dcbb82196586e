"""Training several models that become one: a step of this run is the whole training of a member."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import PathLike
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankgrove.boosting.binned import SharedBins
from rankgrove.boosting.parameters import Parameters
from rankgrove.boosting.phases import Phases
from rankgrove.data.dataset import with_features
from rankgrove.data.documents import Documents
from rankgrove.data.joined import join_datasets
from rankgrove.data.preferences import Preferences
from rankgrove.errors import DataError, ParameterError, parameter, refusal
from rankgrove.model.base import ScoringModel, load
from rankgrove.model.combined import CombinedModel
from rankgrove.model.members import Member, average_members, members_of, scaled_member, spread_of
from rankgrove.model.model import Model
from rankgrove.objectives.preferences import check_takes_preferences
from rankgrove.rules import is_auto
from rankgrove.training.checkpoints import DATA_CHECKSUM, data_checksum
from rankgrove.training.measures import MetricMeasures
from rankgrove.training.mixing import FoldData, HeldOut, RunsBeside, select
from rankgrove.training.recipe import Kind, Recipe, RecipePlan, kinds_of, why_no_network
from rankgrove.training.run import Run
from rankgrove.training.starting import AnyParameters, start_run
from rankgrove.training.trainer import MEMBERS
from rankgrove.training.validation import History, Validation, check_sets

Floats = NDArray[np.float64]
Say = Callable[[str], None]

# Where the notes of a model have how it was put together, and what folds said of each kind.
RECIPE, HELD_OUT = "recipe", "held_out"


@dataclass(frozen=True)
class MemberPlan:
    """A member that is to be trained: its kind, its parameters with its seed, and its share."""

    kind: str
    parameters: AnyParameters
    share: float


@dataclass(frozen=True)
class MembersPlan:
    """What training does: the members, and what folds said of each kind, if they were asked."""

    members: tuple[MemberPlan, ...]
    held_out: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """As JSON values; of members of one kind only the seed differs."""
        kinds: dict[str, dict[str, Any]] = {}
        for member in self.members:
            entry = kinds.setdefault(
                member.kind, {"members": 0, "share": 0.0, **_plan_json(member.parameters)}
            )
            entry["members"] += 1
            entry["share"] += member.share
        return {"kinds": kinds, HELD_OUT: self.held_out}


def _plan_json(parameters: AnyParameters) -> dict[str, Any]:
    return {"plan": parameters.resolve().as_json()}


class MembersTrainer:
    """Members in training, one after the other. What each attribute is, `Trainer` says.

    Attributes
    ----------
    members
        Those that are done; their trees have their factor in them.
    """

    unit = MEMBERS
    is_stuck = False

    def __init__(
        self,
        train: Documents,
        valid: Mapping[str, Documents],
        parameters: AnyParameters,
        recipe: Recipe,
        plan: MembersPlan,
        *,
        preferences: Preferences | None = None,
        verbose: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.train, self.valid, self.parameters, self.plan = train, dict(valid), parameters, plan
        self.recipe, self.preferences, self.n_jobs = recipe, preferences, n_jobs
        self.members: list[Member] = []
        self.phases, self._verbose = Phases(), verbose
        self._bins = SharedBins(parameters.random_state)
        self._sums = {name: np.zeros(data.n_documents) for name, data in self.valid.items()}
        self._next: tuple[Member, dict[str, Floats]] | None = None
        self._beside = RunsBeside.on(train, self.most_steps, n_jobs)
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: dict[int, Future[ScoringModel]] = {}
        self._is_over = Event()

    @property
    def n_steps(self) -> int:
        return len(self.members)

    @property
    def most_steps(self) -> int:
        """How many members there are to be."""
        return len(self.plan.members)

    def step(self) -> None:
        """Train the next member to its end; on small data, with those after it beside it."""
        number = self.n_steps
        if self._beside.n_runs == 1:
            model = self._train(number, self.n_jobs, verbose=self._verbose)
        else:
            self._start_ahead(number)
            model = self._ahead.pop(number).result()
        self._count_in(model, self.plan.members[number])

    def _train(self, number: int, n_jobs: int | None, *, verbose: bool = False) -> ScoringModel:
        """The model of a member, by a run of its own."""
        plan = self.plan.members[number]
        options: dict[str, Any] = {}
        if isinstance(plan.parameters, Parameters):
            options["shared_bins"] = self._bins
        run = start_run(
            self.train, self.valid, plan.parameters, preferences=self.preferences, n_jobs=n_jobs,
            **options,
        )  # fmt: skip
        run.title = f"member {number + 1} of {self.most_steps}, {plan.kind}:"
        run.run([lambda _: self._is_over.is_set()], verbose=verbose)
        if run.interrupted:
            raise KeyboardInterrupt
        model: ScoringModel = run.make_model()
        return model

    def _start_ahead(self, number: int) -> None:
        """Have this member and those after it trained, as many at a time as there are threads."""
        if self._pool is None:
            of_trees = (one.parameters for one in self.plan.members)
            first = next((one for one in of_trees if isinstance(one, Parameters)), None)
            if first is not None:
                # All share what is made here; no two make it at the same time.
                self._bins.get(self.train, self.valid, first, self.n_jobs)
            self._pool = ThreadPoolExecutor(self._beside.n_runs)
        for ahead in range(number, min(number + self._beside.n_runs, self.most_steps)):
            if ahead not in self._ahead:
                n_jobs = self._beside.n_jobs_of(ahead, self.most_steps)
                self._ahead[ahead] = self._pool.submit(self._train, ahead, n_jobs)

    def finish(self) -> None:
        """Have members that are still in training end after their next tree, and wait for them."""
        self._is_over.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._ahead.clear()

    def _count_in(self, model: ScoringModel, plan: MemberPlan) -> None:
        """Have a trained model as the next member, with what it gives the validation sets."""
        spread = spread_of(model.predict(self.train, n_jobs=self.n_jobs), self.train.offsets)
        factor = plan.share / spread if spread > 0 else 0.0
        member = Member(scaled_member(model, factor), plan.kind, factor, plan.share)
        self._next = member, self._added(member)

    def _added(self, member: Member) -> dict[str, Floats]:
        """What a member adds to the scores of each validation set."""
        factor = 1.0 if isinstance(member.model, Model) else member.factor
        return {
            name: factor * member.model.predict(data, n_jobs=self.n_jobs)
            for name, data in self.valid.items()
        }

    def go_on_from(self, members: list[Member]) -> None:
        """Take over members that are done: the first ones of the plan, in its order."""
        left = list(members)
        for plan in self.plan.members[: len(members)]:
            member = next((one for one in left if one.kind == plan.kind), left[0])
            left.remove(member)
            self._next = member, self._added(member)
            self._keep_next()

    def valid_scores(self) -> dict[str, Floats]:
        """The scores of each validation set with the last member."""
        added = self._next[1] if self._next is not None else {}
        return {name: scores + added.get(name, 0.0) for name, scores in self._sums.items()}

    def keep(self, validation: Validation) -> None:
        """Count the last member in."""
        self._keep_next()

    def _keep_next(self) -> None:
        if self._next is None:
            return
        scores, (member, _) = self.valid_scores(), self._next
        # Nothing is called from here on, so that Ctrl-C finds all of this or none.
        self._sums, self._next = scores, None
        self.members = [*self.members, member]

    def undo(self) -> None:
        """Forget a member that an interrupt has cut short."""
        self._next = None

    def has_learned(self, n_steps: int) -> bool:
        """Whether any member tells documents apart."""
        return any(member.factor > 0 for member in self.members[:n_steps])

    def make_model(self, n_steps: int, history: History) -> Model | CombinedModel:
        """The average of the first members."""
        notes: dict[str, Any] = {
            DATA_CHECKSUM: data_checksum(self.train, self.preferences, self.n_jobs),
            RECIPE: self.recipe.as_json(),
        }
        if self.plan.held_out:
            notes[HELD_OUT] = self.plan.held_out
        return average_members(self.members[:n_steps], self.parameters.as_json(), history, notes)


def start_members(
    train: Documents,
    valid: Mapping[str, Documents],
    parameters: AnyParameters,
    recipe: Recipe,
    *,
    resume: Any = None,
    base_model: Any = None,
    preferences: Preferences | None = None,
    verbose: bool = False,
    say: Say | None = None,
    n_jobs: int | None = None,
) -> Run:
    """A run of several members that has trained none yet; what cannot be done is refused first.

    Where folds must choose kinds, their weights or numbers of trees, this is done here.

    Parameters
    ----------
    resume, base_model, preferences
        As for `Ranker.fit`.
    recipe
        How many members, and of which kinds.
    verbose
        Whether each member shows its progress.
    say
        What is told what folds say of each kind, a line at a time.
    """
    plan = recipe.plan(has_valid=bool(valid))
    _check_start(train, parameters, base_model, preferences, plan)
    check_sets(train, valid, parameters)
    told = say or (lambda text: None)
    kinds = _usable_kinds(kinds_of(parameters, plan.mix), train, preferences, plan, told)
    sets = dict(valid)
    if plan.refit:
        first = next(iter(sets))
        rows = [with_features(train, "refit"), with_features(sets.pop(first), "refit")]
        train = join_datasets(rows)
    earlier = _load_members(resume)
    held_out = None if earlier is None else earlier.notes.get(HELD_OUT)
    if held_out is None:
        held_out = _ask_folds(train, kinds, plan, parameters, n_jobs, told)
    members = _plan_members(kinds, plan, held_out, stops=bool(valid) and not plan.refit)
    trainer = MembersTrainer(
        train, sets, parameters, recipe, MembersPlan(tuple(members), held_out),
        preferences=preferences, verbose=verbose, n_jobs=n_jobs,
    )  # fmt: skip
    history = None
    if earlier is not None:
        _check_same(earlier, trainer)
        history = earlier.history
        trainer.go_on_from(members_of(earlier))
    measures = MetricMeasures(parameters.metrics())
    return Run(trainer, Validation(sets, measures, None, history, n_jobs))


def _check_start(
    train: Documents,
    parameters: AnyParameters,
    base_model: Any,
    preferences: Preferences | None,
    plan: RecipePlan,
) -> None:
    if getattr(parameters, "constraints", None) is not None:
        rule = "be left out for several members: an average need not meet what each one does"
        raise refusal("constraints", rule, parameters.constraints)
    if base_model is not None or train.base_scores is not None:
        name = "base_scores" if base_model is None else "base_model"
        rule = "be left out for several members, each of which is a model of its own"
        raise refusal(name, rule, got="it")
    if preferences is not None and (is_auto(plan.mix) or plan.refit):
        name = "mix" if is_auto(plan.mix) else "refit"
        rule = "be left out with preferences, which folds and joined data would cut"
        raise refusal(name, rule, plan.mix if name == "mix" else True)


def _usable_kinds(
    kinds: list[Kind],
    train: Documents,
    preferences: Preferences | None,
    plan: RecipePlan,
    say: Say,
) -> list[Kind]:
    """Refuse kinds that cannot be trained on these data; those that 'auto' has are left out."""
    of_trees = [kind for kind in kinds if isinstance(kind.parameters, Parameters)]
    if preferences is not None:
        for one in (kind.parameters for kind in kinds):
            if isinstance(one, Parameters):
                check_takes_preferences(one.resolve(has_preferences=True).objective)
    reason = why_no_network(train)
    if reason is None or len(of_trees) == len(kinds):
        return kinds
    if not is_auto(plan.mix):
        raise refusal("mix", "be of trees here", plan.mix, advice=f"{reason}, for a network")
    networks = [kind.name for kind in kinds if kind not in of_trees]
    say(f"{', '.join(networks)} is left out of the mix: {reason}")
    return of_trees


def _ask_folds(
    train: Documents,
    kinds: list[Kind],
    plan: RecipePlan,
    parameters: AnyParameters,
    n_jobs: int | None,
    say: Say,
) -> dict[str, Any]:
    """What folds say of each kind: its metric, steps and share; nothing where nobody needs it."""
    open_number = any(
        not isinstance(kind.parameters, Parameters) or is_auto(kind.parameters.n_estimators)
        for kind in kinds
    )
    if not is_auto(plan.mix) and not (plan.refit and open_number):
        return {}
    if train.n_queries < 2:
        raise DataError("a mix that is chosen on folds must have at least 2 queries. Got 1.")
    seed, metric = parameters.random_state, parameters.metrics()[0]
    folds = FoldData(train, seed)
    chosen, shares = select(folds, kinds, metric, seed=seed, n_jobs=n_jobs, say=say)
    if not is_auto(plan.mix):
        shares = dict.fromkeys(chosen, 1.0 / len(chosen))
    else:
        words = (f"{name} {share:.0%}" for name, share in shares.items() if share)
        say(f"mix: {', '.join(words)}")
    return {name: _held_out_json(one, str(metric), shares[name]) for name, one in chosen.items()}


def _held_out_json(one: HeldOut, metric: str, share: float) -> dict[str, Any]:
    return {"metric": metric, "value": one.mean, "steps": one.n_steps, "share": share}


def _plan_members(
    kinds: list[Kind], plan: RecipePlan, held_out: Mapping[str, Any], *, stops: bool
) -> list[MemberPlan]:
    """The members with their seeds, kinds in turns, so that an interrupt leaves some of each."""
    if held_out:
        kinds = [kind for kind in kinds if held_out.get(kind.name, {}).get("share", 0.0) > 0]
    found = []
    for number in range(plan.members):
        for kind in kinds:
            own = kind.parameters
            share = held_out[kind.name]["share"] if held_out else 1.0 / len(kinds)
            if held_out and (not stops or own.early_stopping_rounds is None):
                own = _with_steps(own, held_out[kind.name]["steps"])
            elif not stops:
                own = replace(own, early_stopping_rounds=None)
            if plan.members > 1:
                own = varied(own)
            own = replace(own, random_state=own.random_state + number)
            found.append(MemberPlan(kind.name, own, share / plan.members))
    return found


def _with_steps(parameters: AnyParameters, n_steps: int) -> AnyParameters:
    """The parameters of a run of exactly so many trees or epochs."""
    n_steps = max(1, n_steps)
    if isinstance(parameters, Parameters):
        return replace(parameters, early_stopping_rounds=None, n_estimators=n_steps)
    return replace(parameters, early_stopping_rounds=None, max_epochs=n_steps)


def varied(parameters: AnyParameters) -> AnyParameters:
    """Parameters whose seed matters: trees that draw nothing get a bootstrap of queries.

    >>> varied(Parameters(objective="lambdamart", grower="leafwise")).bootstrap_by
    'query'
    >>> given = Parameters(objective="yetirank")
    >>> varied(given) is given
    True
    """
    if not isinstance(parameters, Parameters):
        return parameters
    plan = parameters.resolve()
    draws = (
        plan.objective.is_random, parameters.temperature is not None, plan.bootstrap > 0,
        plan.split_noise > 0, parameters.subsample < 1, parameters.colsample < 1,
    )  # fmt: skip
    return parameters if any(draws) else replace(parameters, bootstrap=1.0, bootstrap_by="query")


def _load_members(resume: Any) -> ScoringModel | None:
    """The members to go on from, if there are some."""
    if resume is None:
        return None
    model = load(resume) if isinstance(resume, (str, PathLike)) else resume
    if not isinstance(model, ScoringModel) or not model.n_members:
        raise refusal("resume", "be a checkpoint of members", got=repr(model))
    return model


def _check_same(earlier: ScoringModel, trainer: MembersTrainer) -> None:
    """Refuse to go on from members of another recipe, other parameters or other data."""
    if earlier.notes.get(RECIPE) != trainer.recipe.as_json():
        got = f"{earlier.notes.get(RECIPE)}"
        raise ParameterError(
            f"training must go on with the recipe of the checkpoint, {got}. Got another: the same "
            f"{parameter('effort')}, {parameter('members')}, {parameter('mix')} and "
            f"{parameter('refit')} must be given."
        )
    given = trainer.parameters.as_json()
    for name, value in given.items():
        if earlier.parameters.get(name, value) != value:
            raise ParameterError(
                f"training must go on with the parameters of the checkpoint. Got "
                f"{name}={value!r} in place of {earlier.parameters[name]!r}."
            )
    checksum = data_checksum(trainer.train, trainer.preferences, trainer.n_jobs)
    if earlier.notes.get(DATA_CHECKSUM) != checksum:
        raise DataError("training must go on with the data of the checkpoint. Got other data.")
    if list(earlier.history) != list(trainer.valid):
        raise DataError(
            f"training must go on with the validation sets of the checkpoint, "
            f"{list(earlier.history)}. Got {list(trainer.valid)}."
        )
