"""The parameters of training: each described once, at its field; and what `auto` comes to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np

from rankgrove.boosting.bounds import Bounds, bounds_of, check_constraints, parse_constraints
from rankgrove.boosting.number_of_trees import default_n_estimators
from rankgrove.errors import check_names, parameter, refusal, unknown_name, whole_number
from rankgrove.metrics.base import Metric
from rankgrove.metrics.spec import MetricLike, metric_list, parse_metric, split_arguments
from rankgrove.metrics.sums import parts_of
from rankgrove.objectives.base import Objective
from rankgrove.objectives.function import ForceFunction
from rankgrove.objectives.pairwise import Pairwise
from rankgrove.objectives.registry import OBJECTIVES, make_objective, objective_from_json
from rankgrove.rules import (
    AUTO,
    Auto,
    check_options,
    is_auto,
    option,
    options_of,
    union_of,
    with_options,
)
from rankgrove.trees.grower import Growth, TreeOptions
from rankgrove.trees.joint_leaves import MOST_JOINT_LEAVES

# What an oblivious tree may be deep, and has unless told; any other tree has so many leaves.
_DEEPEST, _OBLIVIOUS_DEPTH, _LEAVES = 16, 6, 31

# The fewest documents of a leaf unless told. The cut of an oblivious level is no choice of the
# node that it leaves with few documents.
_FEWEST, _OBLIVIOUS_FEWEST = 20, 1

# What else oblivious trees have unless told, whatever the objective; and what is drawn for them
# where the forces are not: docs/options.md.
_OBLIVIOUS_L2, _OBLIVIOUS_BOOTSTRAP, _OBLIVIOUS_NOISE = 20.0, 1.0, 1.0

# What validation watches unless told.
_WATCHED = "ndcg@10"

# The headings that parameters stand under.
OPTIMISED, TREES, DRAWN = "What is optimised", "Trees", "Sampling and noise"
FEATURES, WATCHED, OF_SOME = "Features", "Validation", "Of some objectives"

# What belongs to one objective or another and is handed on to it.
OF_OBJECTIVE = union_of(OBJECTIVES, OF_SOME)


def _check_metrics(_: str, value: Any) -> None:
    _metrics(value)


def _metrics(chosen: Any) -> list[Metric]:
    several = metric_list(chosen)
    if not several:
        raise refusal("eval_metric", "name at least one metric", got="none")
    return [parse_metric(metric) for metric in several]


def _check_bounds(value: Any) -> None:
    bounds_of(value)


def _check_metric(_: str, value: Any) -> None:
    parse_metric(value)


def _check_objective(name: str, value: Any) -> None:
    is_value = isinstance(value, Objective) or callable(value)
    if not is_value and (not isinstance(value, str) or value not in OBJECTIVES):
        raise unknown_name(parameter(name), str(value), OBJECTIVES)


def _check_features(name: str, value: Any) -> None:
    if not isinstance(value, (list, tuple, np.ndarray)):
        raise refusal(name, "be a list of features, by name or number, or None", value)


def _check_signs(name: str, value: Any) -> None:
    if not isinstance(value, (Mapping, list, tuple, np.ndarray)):
        raise refusal(name, "be a mapping of features to signs, a list of signs, or None", value)


def _parse_signs(text: str) -> dict[str, int]:
    """Signs by feature.

    >>> _parse_signs("age=-1, clicks=1")
    {'age': -1, 'clicks': 1}
    """
    entries = [entry.rpartition("=") for entry in text.split(",")]
    for name, equals, sign in entries:
        if not name or sign.strip() not in ("1", "+1", "-1", "0"):
            rule = "be NAME=1 or NAME=-1, with commas between"
            raise refusal("monotone", rule, got=f"'{name}{equals}{sign}'")
    return {name.strip(): int(sign) for name, _, sign in entries}


@dataclass(frozen=True, kw_only=True)
class TrainingParameters(ABC):
    """What trees and networks have in common."""

    objective: Any = option(AUTO, panel=OPTIMISED, metavar="NAME")
    metric: MetricLike = option(
        AUTO,
        "What the objective optimises, where it has a choice; validation watches it, too.",
        "It may be a function of the labels in rank order, plain or compiled by Numba, which is "
        "slower; a model file keeps its name only. Several are a weighted sum, "
        "`{\"ndcg@10\": 1, \"map\": 0.3}` or `ndcg@10 + 0.3*map`, and `ndcg@10 of clicks` goes by "
        "a further label: docs/objectives.md.",
        panel=OPTIMISED, metavar="METRIC", check=_check_metric,
        auto=f"the objective's own, while validation watches {_WATCHED}",
    )  # fmt: skip
    learning_rate: float = option(
        0.1, "Share of its step that each tree makes.", panel=TREES, above=0
    )
    eval_metric: MetricLike | Collection[MetricLike] | None = option(
        None,
        "Measure validation by these of 'rankgrove metrics'; the first decides.",
        panel=WATCHED, metavar="METRIC,...", none="the `metric`", check=_check_metrics,
        parse=lambda text: [metric for metric in split_arguments(text) if metric],
    )  # fmt: skip
    early_stopping_rounds: int | None = option(
        None,
        "Stop when validation has not improved for so many trees or epochs, and keep the best.",
        "What counts is the first metric on the first validation set.",
        panel=WATCHED, least=1, none="never",
    )  # fmt: skip
    random_state: int = option(
        0, "Seed of everything random.", panel=DRAWN, least=0, most=(1 << 63) - 1
    )

    if TYPE_CHECKING:
        # What belongs to an objective is a field, too.
        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def from_names(cls, values: Mapping[str, Any]) -> Self:
        """The parameters from their names; one that does not exist is refused.

        >>> Parameters.from_names({"learning_rat": 0.1})
        Traceback (most recent call last):
        rankgrove.errors.ParameterError: parameter must be one of objective, ...
        """
        check_names("parameter", values, options_of(cls))
        return cls(**values)

    @cached_property
    def _made_objective(self) -> Objective:
        return self._make_objective()

    def make_objective(self) -> Objective:
        """The objective with those of the parameters that are its own; made once."""
        return self._made_objective

    @abstractmethod
    def _make_objective(self) -> Objective: ...

    def _objective_of(self, name: str) -> Objective:
        """The objective of a name with those of the parameters that are its own."""
        known, chosen = options_of(OBJECTIVES[name]), {}
        for option_name in OF_OBJECTIVE:
            value = plain(getattr(self, option_name, AUTO))
            if is_auto(value):
                continue
            if option_name in known:
                chosen[option_name] = value
            elif option_name != "metric":
                raise refusal(option_name, f"be left out for {name}, which has none", value)
        return make_objective(name, **chosen)

    def _checked_value(self, objective: Objective) -> Objective:
        """An objective that is given as a value; options beside it that differ are refused."""
        has = objective.as_json()
        for name in OF_OBJECTIVE:
            told = plain(getattr(self, name, AUTO))
            # Validation may watch a metric that the objective has no choice of.
            if is_auto(told) or (name == "metric" and name not in has):
                continue
            told = str(parse_metric(told)) if name == "metric" else told
            if name not in has or has[name] != told:
                rule = "be left out where the objective is a value"
                raise refusal(name, rule, told, advice="give it to the objective itself")
        return objective

    def metrics(self) -> list[Metric]:
        """What validation sets are measured by; the first decides.

        Unless told, of a sum of metrics its parts stand beside it.

        >>> [str(metric) for metric in Parameters(metric={"ndcg@10": 1, "map": 0.3}).metrics()]
        ['ndcg@10 + 0.3*map', 'ndcg@10', 'map']
        """
        if self.eval_metric is not None:
            return _metrics(self.eval_metric)
        watched = parse_metric(_WATCHED if is_auto(self.metric) else self.metric)
        return list(dict.fromkeys([watched, *(metric for metric, _ in parts_of(watched))]))

    def as_json(self) -> dict[str, Any]:
        """The parameters as JSON values, for a file.

        An objective that is given as a value becomes a mapping of its own parameters and its
        name, and a mapping of features to signs becomes pairs, as features may be numbers.
        """
        values = {field.name: _as_json(getattr(self, field.name)) for field in fields(self)}
        for name in ("metric", "eval_metric"):
            given = getattr(self, name)
            if isinstance(given, Mapping):
                values[name] = str(parse_metric(given))
            elif isinstance(values[name], list):
                shown = (str(parse_metric(e)) if isinstance(e, Mapping) else e for e in given)
                values[name] = [_as_json(entry) for entry in shown]
        if isinstance(constraints := getattr(self, "constraints", None), Mapping):
            values["constraints"] = [
                [str(parse_metric(metric)), plain(bound)] for metric, bound in constraints.items()
            ]
        if not isinstance(self.objective, str):
            values["objective"] = make_objective(self.objective).as_json()
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The parameters that `as_json` wrote; other entries are left out.

        >>> given = Parameters(n_estimators=100, monotone={0: 1, "age": -1})
        >>> Parameters.from_json(given.as_json()) == given
        True
        """
        known = {name: values[name] for name in options_of(cls) if name in values}
        for name in ("metric", "eval_metric"):
            if isinstance(known.get(name), str) and "custom(" in known[name]:
                # A function of the user's own is not in the file.
                del known[name]
        if isinstance(known.get("objective"), Mapping):
            known["objective"] = objective_from_json(known["objective"])
        monotone = known.get("monotone")
        if isinstance(monotone, list) and any(isinstance(entry, list) for entry in monotone):
            known["monotone"] = dict(monotone)
        if isinstance(known.get("constraints"), list):
            known["constraints"] = dict(known["constraints"])
        return cls(**known)


@dataclass(frozen=True)
class Plan:
    """What training does, with nothing left open: what each `auto` has come to.

    Attributes
    ----------
    parameters
        As they were given.
    objective, metrics
        What is optimised, and what validation sets are measured by.
    """

    parameters: TrainingParameters
    objective: Objective
    metrics: tuple[Metric, ...]

    def as_json(self) -> dict[str, Any]:
        """The value of each parameter that counts, by name; these as parameters train the same."""
        known, given = options_of(type(self.parameters)), self.parameters.as_json()
        values = {name: value for name, value in given.items() if name not in OF_OBJECTIVE}
        of_objective = self.objective.as_json()
        values |= {name: value for name, value in of_objective.items() if name in known}
        return values | {"eval_metric": [str(metric) for metric in self.metrics]}


@dataclass(frozen=True)
class TreePlan(Plan):
    """What training trees does.

    Attributes
    ----------
    n_estimators
        The number of trees, at most.
    trees
        How a tree grows.
    l2_documents, bootstrap, split_noise
        As the parameters of these names.
    """

    n_estimators: int
    trees: TreeOptions
    l2_documents: float
    bootstrap: float
    split_noise: float

    def as_json(self) -> dict[str, Any]:
        """As that of `Plan`.

        >>> plan = Parameters(metric="map").resolve(1000).as_json()
        >>> plan["objective"], plan["grower"], plan["permutations"], plan["min_samples_leaf"]
        ('yetiloss', 'oblivious', 3, 1)
        >>> Parameters.from_json(plan).resolve(1000).as_json() == plan
        True
        """
        names = ("n_estimators", "l2_documents", "bootstrap", "split_noise")
        values = super().as_json() | asdict(self.trees)
        values |= {name: getattr(self, name) for name in names}
        if type(self.objective) is OBJECTIVES.get(self.objective.name):
            values["objective"] = self.objective.name
        # The layout goes by the memory of a machine, and the model does not depend on it.
        return {name: plain(value) for name, value in values.items() if name != "layout"}


@dataclass(frozen=True, kw_only=True)
@with_options({name: entry for name, entry in OF_OBJECTIVE.items() if name != "metric"})
class Parameters(TrainingParameters):
    """How a model of trees is trained. docs/parameters.md has what each parameter means."""

    objective: str | Objective | ForceFunction = option(
        AUTO,
        f"What pushes documents up and down: {', '.join(OBJECTIVES)}.",
        "`rankgrove objectives` says what each is, with its formula. In Python also a function "
        "f(scores, labels, offsets, weights, forces, curvatures): see `FunctionObjective`.",
        check=_check_objective,
        auto="yetirank, or yetiloss with a `metric`, or lambdamart with preferences",
    )  # fmt: skip
    constraints: Mapping[Any, float] | None = option(
        None,
        "Values that other metrics must not fall below, on training and validation data.",
        "As `{\"map\": 0.45}`: the `metric` is maximised while these hold. The model that is kept "
        "is the best that meets them; a warning says so if none does. See docs/objectives.md.",
        panel=OPTIMISED, metavar="METRIC>=N,...", check=lambda _, value: _check_bounds(value),
        parse=parse_constraints,
    )  # fmt: skip
    n_estimators: int | Auto = option(
        AUTO, "Trees, at most.", "See docs/number-of-trees.md.", panel=TREES, least=1,
        auto="10 / learning_rate; with early stopping 500, or 50 / learning_rate if that is more",
    )  # fmt: skip
    grower: Growth | Auto = option(
        AUTO,
        "Split next the node of the best gain, or the highest one, or all of a level by one cut.",
        "The cut of an oblivious level is the one that gains most in those nodes where it leaves "
        "enough on both sides, and values that rise or fall as a monotone feature must.",
        panel=TREES,
        auto="the objective's own, but leafwise with `max_leaves` or with a `max_depth` above "
        f"{_DEEPEST}",
    )  # fmt: skip
    max_leaves: int | Auto = option(
        AUTO, "Leaves of a tree, at most; an oblivious one goes by its depth.", panel=TREES,
        least=2, auto=f"{_LEAVES}",
    )  # fmt: skip
    max_depth: int | None = option(
        None, "Depth of a tree, at most.", panel=TREES, least=1,
        none=f"no limit ({_OBLIVIOUS_DEPTH} for oblivious)",
    )  # fmt: skip
    min_samples_leaf: int | Auto = option(
        AUTO, "Documents of a leaf, at least.", panel=TREES, least=1,
        auto=f"{_FEWEST}, or {_OBLIVIOUS_FEWEST} for oblivious",
    )  # fmt: skip
    min_child_weight: float | Auto = option(
        AUTO,
        "Sum of curvatures of a leaf, at least.",
        "It grows with the weights of queries; with `split_gain` least_squares every document "
        "counts 1.",
        panel=TREES, least=0, auto="the objective's own",
    )  # fmt: skip
    l2: float | Auto = option(
        AUTO, "Added to the curvature of a node: the larger, the smaller the steps.", panel=TREES,
        least=0, auto="the objective's own, or 0 for oblivious or with `l2_documents`",
    )  # fmt: skip
    l2_documents: float | Auto = option(
        AUTO,
        "As `l2`, counted in documents of average curvature.",
        "So it means the same for any objective and any data.",
        panel=TREES, least=0,
        auto=f"the objective's own, or {_OBLIVIOUS_L2:g} for oblivious, or 0 with `l2`",
    )  # fmt: skip
    max_bins: int = option(
        255, "How finely a feature is cut, 2 to 255.", "Missing values have a bin of their own.",
        panel=TREES, least=2, most=255,
    )  # fmt: skip
    layout: Literal["auto", "both", "rows"] = option(
        "auto",
        "Keep codes of features row by row, or also feature by feature: faster, twice the memory.",
        "The model has the same bits.",
        panel=TREES, auto="both where they fit into half of the memory",
    )  # fmt: skip
    split_gain: Literal["newton", "least_squares"] = option(
        "newton", "Weigh documents by their curvature, or count them (MART), to choose splits.",
        panel=TREES,
    )  # fmt: skip
    leaf: Literal["newton", "newton_cross_leaf", "joint", "mean"] = option(
        "newton",
        "The value of a leaf.",
        "newton: the sum of forces by that of curvatures and `l2`. newton_cross_leaf, of pairwise "
        "objectives: the curvature of a pair counts only if its documents are in different leaves. "
        "joint, of pairwise objectives: all leaves at once, as a pair in two leaves moves both. "
        "mean: the mean force.",
        panel=TREES,
    )  # fmt: skip
    leaf_steps: int = option(
        1, "Steps in each leaf, one after the other.", "Each computes the forces anew.",
        panel=TREES, least=1,
    )  # fmt: skip
    leaf_noise: Literal["same", "new"] = option(
        "same",
        "Whether the values of leaves see the noise that splits were chosen by, or another draw.",
        "Of objectives with noise. new computes the forces a second time for each tree.",
        panel=DRAWN,
    )  # fmt: skip
    subsample: float = option(
        1.0, "Share of the data that a tree is grown on.", panel=DRAWN, above=0, most=1
    )
    sampling: Literal["query", "document", "gradient", "variance", "variance_query"] = option(
        "query",
        "What is sampled, and how.",
        "query, document: at random. gradient: the documents with the largest forces and some of "
        "the others, a third of the share, which then count for more. variance, variance_query: "
        "documents, or queries, with the least variance of their sums.",
        panel=DRAWN,
    )  # fmt: skip
    bootstrap: float | Auto = option(
        AUTO,
        "Temperature of a Bayesian bootstrap, 0 for none.",
        "Where the splits of a tree are chosen, each query or document counts "
        "(-ln u)^temperature, u drawn between 0 and 1; in the values of leaves all count alike.",
        panel=DRAWN, least=0, most=10,
        auto=f"{_OBLIVIOUS_BOOTSTRAP:g} for oblivious, and 0 with a `subsample` or drawn forces",
    )  # fmt: skip
    bootstrap_by: Literal["query", "document"] = option(
        "document", "What the bootstrap draws a weight for.", panel=DRAWN
    )
    split_noise: float | Auto = option(
        AUTO,
        "Noise in what splits are compared by, which fades as trees are added.",
        "It is normal, in the root of the sum of squared forces by curvature that a tree with the "
        "split has, in units of that root for one document: the larger the gains, the less it "
        "decides. It is gone about when the number of trees by the learning rate passes the "
        "logarithm of the number of documents.",
        panel=DRAWN, least=0, auto=f"{_OBLIVIOUS_NOISE:g} for oblivious, and 0 with drawn forces",
    )  # fmt: skip
    colsample: float = option(
        1.0, "Share of the features that a tree may split by.", panel=DRAWN, above=0, most=1
    )
    temperature: float | None = option(
        None, "Langevin noise of scale sqrt(2 / (learning rate * temperature)) in the forces.",
        panel=DRAWN, above=0,
    )  # fmt: skip
    shrink_rate: float = option(
        0.0, "Each iteration first multiplies the model by 1 - learning rate * shrink rate.",
        panel=DRAWN, least=0,
    )  # fmt: skip
    monotone: Mapping[Any, int] | Collection[int] | None = option(
        None, "Features in which the score may only rise (1) or fall (-1).",
        panel=FEATURES, metavar="NAME=1,...", check=_check_signs, parse=_parse_signs,
    )  # fmt: skip
    categorical: Collection[Any] | None = option(
        None, "Features whose values are categories, by name or number.",
        "Rankers take strings, too, from data frames and tables.",
        panel=FEATURES, metavar="NAME,...", check=_check_features,
        parse=lambda text: [feature.strip() for feature in text.split(",")],
    )  # fmt: skip
    category_l2: float = option(
        10.0, "Added to `l2`, or to `l2_documents`, for splits by categories.", panel=FEATURES,
        least=0,
    )  # fmt: skip
    category_smoothing: float = option(
        10.0,
        "Added to the curvature of a category before sorting.",
        "It counts as `category_l2` does; a category with fewer documents stays right.",
        panel=FEATURES, least=0,
    )  # fmt: skip
    max_categories: int = option(
        32, "Categories that may go left at a split, at most.", panel=FEATURES, least=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        objective = self.make_objective()
        check_constraints(self.constraints, objective)
        if self.grower == "oblivious":
            depth = f"{parameter('max_depth')} of oblivious trees"
            whole_number(depth, self.max_depth, 1, _DEEPEST, none=True)
        self._check_leaves(objective)
        if self.learning_rate * self.shrink_rate >= 1:
            rule = f"be below 1 / {parameter('learning_rate')}, {1 / self.learning_rate:g}"
            raise refusal("shrink_rate", rule, self.shrink_rate)

    def _check_leaves(self, objective: Objective) -> None:
        """Refuse values of leaves that the objective, the sample or the trees do not go with."""
        if self.leaf in ("newton_cross_leaf", "joint") and not isinstance(objective, Pairwise):
            raise refusal(
                "leaf", "be newton or mean for an objective without pairs",
                got=f"{self.leaf!r} for {objective.name}",
            )  # fmt: skip
        if self.leaf == "joint":
            if self.subsample < 1 and self.sampling not in ("query", "variance_query"):
                rule = "be query or variance_query with leaf joint, as a pair counts as a whole"
                raise refusal("sampling", rule, self.sampling)
            n_leaves = self.resolve().trees.max_leaves
            if n_leaves > MOST_JOINT_LEAVES:
                rule = f"be newton for trees of more than {MOST_JOINT_LEAVES:,} leaves"
                raise refusal("leaf", rule, got=f"'joint' for {n_leaves:,}")
        if self.leaf_noise == "new" and not objective.is_random:
            rule = "be same for an objective without noise"
            raise refusal("leaf_noise", rule, got=f"'new' for {objective.name}")
        if self.temperature is not None:
            if self.leaf_steps > 1:
                rule = "be 1 with a temperature: later steps would undo its noise"
                raise refusal("leaf_steps", rule, self.leaf_steps)
            if self.leaf_noise == "new":
                rule = "be same with a temperature: other forces would be without its noise"
                raise refusal("leaf_noise", rule, self.leaf_noise)

    @property
    def bounds(self) -> Bounds:
        """What metrics must not fall below."""
        return bounds_of(self.constraints)

    def metrics(self) -> list[Metric]:
        return list(dict.fromkeys([*super().metrics(), *self.bounds]))

    def _make_objective(self) -> Objective:
        if not isinstance(self.objective, str):
            return self._checked_value(make_objective(self.objective))
        by_default = "yetirank" if is_auto(self.metric) else "yetiloss"
        return self._objective_of(by_default if is_auto(self.objective) else self.objective)

    def resolve(self, n_documents: int | None = None, *, has_preferences: bool = False) -> TreePlan:
        """What training does, with nothing left open: the one place where `auto` is settled.

        Parameters
        ----------
        n_documents
            The number of documents to train on, which bounds the leaves of a tree.
        has_preferences
            Whether training is by preferences.

        Examples
        --------
        >>> plan = Parameters(objective="queryrmse").resolve(1000)
        >>> plan.trees.grower, plan.trees.max_leaves, plan.l2_documents, plan.bootstrap
        ('oblivious', 64, 20.0, 1.0)
        >>> Parameters(max_leaves=31).resolve().trees.grower
        'leafwise'
        """
        by_preferences = has_preferences and is_auto(self.objective)
        objective = self._objective_of("lambdamart") if by_preferences else self.make_objective()
        grower = self._grower_for(objective)
        oblivious = grower == "oblivious"
        # Forces that are drawn are noise enough.
        noisy = oblivious and self.temperature is None and not objective.is_random
        usual: dict[str, Any] = {
            **objective.training_defaults,
            **({"l2": 0.0, "l2_documents": _OBLIVIOUS_L2} if oblivious else {}),
            "bootstrap": _OBLIVIOUS_BOOTSTRAP if noisy and self.subsample == 1 else 0.0,
            "split_noise": _OBLIVIOUS_NOISE if noisy else 0.0,
            "min_samples_leaf": _OBLIVIOUS_FEWEST if oblivious else _FEWEST,
            "max_leaves": _LEAVES,
        }
        if not (is_auto(self.l2) and is_auto(self.l2_documents)):
            # Whoever gives one of the two wants no other.
            usual |= {"l2": 0.0, "l2_documents": 0.0}
        chosen = {field.name: getattr(self, field.name) for field in fields(TreeOptions)}
        for name, value in usual.items():
            told = plain(getattr(self, name))
            chosen[name] = value if is_auto(told) else float(told) if type(value) is float else told
        depth, leaves = self.max_depth, chosen["max_leaves"]
        if oblivious:
            depth = _OBLIVIOUS_DEPTH if depth is None else int(depth)
            leaves = 1 << depth
        elif n_documents is not None:
            # Memory is kept for the leaves that a tree can have.
            leaves = min(leaves, max(2, n_documents // chosen["min_samples_leaf"]))
        if depth is not None and depth < 31:
            leaves = min(leaves, 1 << int(depth))
        chosen |= {"grower": grower, "max_depth": depth, "max_leaves": leaves}
        apart = {name: chosen.pop(name) for name in ("l2_documents", "bootstrap", "split_noise")}
        n_trees = self.n_estimators
        if is_auto(n_trees):
            stops_early = self.early_stopping_rounds is not None
            n_trees = default_n_estimators(self.learning_rate, stops_early=stops_early)
        return TreePlan(
            self, objective, tuple(self.metrics()), int(n_trees), TreeOptions(**chosen), **apart
        )

    def _grower_for(self, objective: Objective) -> Growth:
        """How trees grow: as told, or as the objective's grow best."""
        if not is_auto(self.grower):
            return cast("Growth", self.grower)
        deep = self.max_depth is not None and self.max_depth > _DEEPEST
        return "leafwise" if deep or not is_auto(self.max_leaves) else objective.grower


def _as_json(value: Any) -> Any:
    if isinstance(value, Metric) or callable(value):
        return str(parse_metric(value))
    if isinstance(value, Mapping):
        return [_as_json(pair) for pair in value.items()]
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_as_json(entry) for entry in value]
    return plain(value)


def plain(value: Any) -> Any:
    """A Python number in place of one of NumPy, as parameter searches give them."""
    return value.item() if isinstance(value, np.generic) else value
