"""The parameters of training: their names, defaults and rules, in one place."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np

from rankgrove.errors import ParameterError, is_number, unknown_name, whole_number
from rankgrove.metrics.base import Metric
from rankgrove.metrics.spec import parse_metric
from rankgrove.objectives.base import Objective
from rankgrove.objectives.function import ForceFunction
from rankgrove.objectives.pairwise import Noise, Pairwise
from rankgrove.objectives.registry import OBJECTIVES, make_objective, objective_from_json
from rankgrove.trees.grower import GROWERS, Growth, TreeOptions

SplitGain = Literal["newton", "least_squares"]
Leaf = Literal["newton", "newton_cross_leaf", "mean"]
Sampling = Literal["query", "document", "gradient", "variance", "variance_query"]
BootstrapBy = Literal["query", "document"]
LEAVES: tuple[str, ...] = get_args(Leaf)
SPLIT_GAINS: tuple[str, ...] = get_args(SplitGain)
SAMPLINGS: tuple[str, ...] = get_args(Sampling)
BOOTSTRAPS: tuple[str, ...] = get_args(BootstrapBy)

# What belongs to the objective and is handed on to it; "auto" is the objective's own default.
AUTO: Literal["auto"] = "auto"
OF_OBJECTIVE = (
    "metric", "sigma", "truncation", "normalise", "noise", "noise_scale", "neighbours",
    "permutations", "decay", "samples", "mu", "nu", "projection", "balanced",
)  # fmt: skip

# The leaves of a tree, or the depth of an oblivious one, unless told; and the most it may be told.
_LEAVES, _OBLIVIOUS_DEPTH, _DEEPEST = 31, 6, 16

# The fewest documents of a leaf unless told. The cut of an oblivious level is no choice of the
# node that it leaves with few documents.
_FEWEST, _OBLIVIOUS_FEWEST = 20, 1

# What else oblivious trees have unless told, whatever the objective; and what is drawn for them
# where the forces are not: docs/options.md.
_OBLIVIOUS_L2, _OBLIVIOUS_BOOTSTRAP, _OBLIVIOUS_NOISE = 20.0, 1.0, 1.0

# What validation watches unless told.
_WATCHED = "ndcg@10"

Auto = Literal["auto"]


class Regularisation(NamedTuple):
    """What an objective sets the default of, in its `training_defaults`."""

    min_child_weight: float
    l2: float
    l2_documents: float


class Randomness(NamedTuple):
    """How much is drawn for each tree where nothing is left out."""

    bootstrap: float
    split_noise: float


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """How a model is trained.

    Attributes
    ----------
    objective
        What the forces on the documents come from, by name; `rankgrove objectives` lists them. Or a
        function f(scores, labels, offsets, weights, forces, curvatures): see `FunctionObjective`.
        `auto` is `yetirank`, or `yetiloss` where a `metric` is given, or `lambdamart` with
        preferences.
    metric
        The metric that the objective optimises, where it has a choice, and that validation watches
        unless `eval_metric` says otherwise. `auto` is the objective's own, and watches `ndcg@10`.
        It may be a function of the labels in rank order, plain or compiled by Numba, which is
        slower; a model file keeps its name only.
    n_estimators, learning_rate
        How many trees, and what share of its step each makes.
    grower
        Which node is split next: the one with the best gain (`leafwise`) or the highest one in
        the tree (`depthwise`); or all of a level by one cut (`oblivious`), the one that gains most
        in those nodes where it leaves enough on both sides. `auto` is the objective's own, and
        `leafwise` with categories, monotone features, `max_leaves` or a `max_depth` above 16.
    max_leaves, max_depth
        The size of a tree. `max_depth=None` sets no limit; for `oblivious`, whose size is the depth
        alone, it is 6. `max_leaves` is 31 unless given.
    min_samples_leaf, min_child_weight
        The fewest documents, and the least sum of curvatures, of a leaf. `auto` documents are 20,
        or 1 for `oblivious`. The sum grows with the weights of queries, and with `least_squares`
        every document counts 1 in it; `auto` is the objective's own.
    l2, l2_documents
        Added to the sum of curvatures of a node: the larger, the smaller the steps. `l2` is a
        number, `l2_documents` a number of documents of average curvature, which means the same
        for any objective and any data. `auto` is the objective's own, or 20 documents for
        `oblivious`, and 0 if the other is given.
    max_bins
        How finely a feature is cut, 2 to 255. Missing values have a bin of their own.
    subsample, sampling
        The share of the data that a tree is grown on: whole queries (`query`) or single documents
        (`document`) at random; the documents with the largest forces and some of the others, which
        then count for more (`gradient`; a third of the share goes to the others); or documents, or
        queries, with the least variance of their sums (`variance`, `variance_query`).
    bootstrap, bootstrap_by
        The temperature of a Bayesian bootstrap: each query, or document, counts (-ln u)^temperature
        where the splits of a tree are chosen, u drawn between 0 and 1; in the values of its leaves
        all count alike. 0 is none. `auto` is 1 for `oblivious` without a `subsample` if the forces
        are not drawn, as those of YetiRank are, and 0 else.
    split_noise
        Normal noise in what features are compared by at a split, the root of the sum of squared
        forces by curvature that a tree with the split has, in units of what that root is for one
        document: the larger the gains, the less it decides. It fades as trees are added, about
        when the product of their number and the learning rate passes the logarithm of the number
        of documents. `auto` is 1 for `oblivious` if the forces are not drawn, and 0 else.
    colsample
        The share of the features that a tree may split by.
    split_gain
        What splits are chosen by: `newton` weighs documents by their curvature, `least_squares`
        counts them (MART).
    leaf, leaf_steps
        The value of a leaf: `newton`, the sum of forces by that of curvatures and `l2`;
        `newton_cross_leaf`, where the curvature of a pair counts only if its documents are in
        different leaves, for pairwise objectives; `mean`, the mean force. And how many such steps
        are made one after the other, with forces computed anew.
    sigma, truncation, normalise, noise, noise_scale, neighbours, permutations, decay
        Of pairwise objectives: the steepness of the logistic curve; how deep the better-ranked
        document of a pair may stand; whether the forces of each query are scaled to a comparable
        size; the noise that rankings are drawn with, its scale, how near the documents of a pair
        stand in them, and how many are drawn; the base of YetiRank's discount. For each, `auto` is
        the objective's own.
    samples, mu, nu, projection
        Of `stochasticrank`: draws of the noise, what moves good documents down, and the two numbers
        of its scale-free step.
    balanced
        Of `logistic`: whether both classes weigh the same in all.
    temperature, shrink_rate
        Stochastic gradient Langevin boosting: normal noise of scale sqrt(2 / (learning_rate *
        temperature)) is added to the forces, unless it is None, and each iteration first multiplies
        the model by 1 - learning_rate * shrink_rate.
    monotone
        Features in which the score may only rise (1) or fall (-1), by name or number.
    categorical
        Features whose values are categories, by name or number.
    category_l2, category_smoothing, max_categories
        Of splits by categories: what is added to `l2`; what is added to the curvature of a
        category before sorting (one with fewer documents stays right); how many may go left. The
        first two count as `l2` does or, where `l2_documents` is set, as that does.
    eval_metric
        One metric or several that validation sets are measured by; the first one decides.
    early_stopping_rounds
        Stop when the first metric on the first validation set has not improved for so many trees,
        and keep the trees up to the best. None never stops.
    random_state
        The seed of everything random.
    """

    objective: str | Objective | ForceFunction = AUTO
    metric: str | Metric = AUTO
    n_estimators: int = 500
    learning_rate: float = 0.1
    grower: Growth | Auto = AUTO
    max_leaves: int | Auto = AUTO
    max_depth: int | None = None
    min_samples_leaf: int | Auto = AUTO
    min_child_weight: float | Auto = AUTO
    l2: float | Auto = AUTO
    l2_documents: float | Auto = AUTO
    max_bins: int = 255
    subsample: float = 1.0
    sampling: Sampling = "query"
    bootstrap: float | Auto = AUTO
    bootstrap_by: BootstrapBy = "document"
    split_noise: float | Auto = AUTO
    colsample: float = 1.0
    split_gain: SplitGain = "newton"
    leaf: Leaf = "newton"
    leaf_steps: int = 1
    sigma: float | Auto = AUTO
    truncation: int | Auto | None = AUTO
    normalise: bool | Auto = AUTO
    noise: Noise | Auto = AUTO
    noise_scale: float | Auto = AUTO
    neighbours: int | Literal["all"] | Auto = AUTO
    permutations: int | Auto = AUTO
    decay: float | Auto = AUTO
    samples: int | Auto = AUTO
    mu: float | Auto = AUTO
    nu: float | Auto = AUTO
    projection: float | Auto = AUTO
    balanced: bool | Auto = AUTO
    temperature: float | None = None
    shrink_rate: float = 0.0
    monotone: Mapping[Any, int] | Sequence[int] | None = None
    categorical: Sequence[Any] | None = None
    category_l2: float = 10.0
    category_smoothing: float = 10.0
    max_categories: int = 32
    eval_metric: str | Metric | Sequence[str | Metric] | None = None
    early_stopping_rounds: int | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        self.make_objective()
        self.metrics()
        _list("categorical", self.categorical, "a list of features, by name or number")
        if not isinstance(self.monotone, Mapping):
            _list("monotone", self.monotone, "a mapping of features to signs, a list of signs")
        whole_number("n_estimators", self.n_estimators, 1)
        _real("learning_rate", self.learning_rate, 0, above=True)
        if not _is_auto(self.grower):
            _one_of("grower", self.grower, GROWERS)
        for name, least in (("max_leaves", 2), ("min_samples_leaf", 1)):
            if not _is_auto(getattr(self, name)):
                whole_number(name, getattr(self, name), least)
        whole_number("max_depth", self.max_depth, 1, none=True)
        if self.grower == "oblivious":
            whole_number("max_depth of oblivious trees", self.max_depth, 1, _DEEPEST, none=True)
            for name in ("monotone", "categorical"):
                if getattr(self, name) is not None and len(getattr(self, name)):
                    raise ParameterError(
                        f"{name} must be left out for oblivious trees. Got {getattr(self, name)!r}."
                    )
        for name in (*Regularisation._fields, "category_l2", "category_smoothing"):
            if name not in Regularisation._fields or not _is_auto(getattr(self, name)):
                _real(name, getattr(self, name), 0)
        whole_number("max_bins", self.max_bins, 2, 255)
        for name in ("subsample", "colsample"):
            _real(name, getattr(self, name), 0, above=True, most=1)
        _one_of("sampling", self.sampling, SAMPLINGS)
        _one_of("bootstrap_by", self.bootstrap_by, BOOTSTRAPS)
        for name, most in (("bootstrap", 10), ("split_noise", math.inf)):
            if not _is_auto(getattr(self, name)):
                _real(name, getattr(self, name), 0, most=most)
        _one_of("split_gain", self.split_gain, SPLIT_GAINS)
        _one_of("leaf", self.leaf, LEAVES)
        whole_number("leaf_steps", self.leaf_steps, 1)
        if self.leaf == "newton_cross_leaf" and not isinstance(self.make_objective(), Pairwise):
            raise ParameterError(
                f"leaf must be newton or mean for an objective without pairs. Got "
                f"{self.leaf!r} for {self.make_objective().name}."
            )
        if self.temperature is not None:
            _real("temperature", self.temperature, 0, above=True)
            if self.leaf_steps > 1:
                raise ParameterError(
                    f"leaf_steps must be 1 with a temperature: later steps would undo its noise. "
                    f"Got {self.leaf_steps}."
                )
        _real("shrink_rate", self.shrink_rate, 0)
        if self.learning_rate * self.shrink_rate >= 1:
            raise ParameterError(
                f"shrink_rate must be below 1 / learning_rate, {1 / self.learning_rate:g}. Got "
                f"{self.shrink_rate!r}."
            )
        whole_number("max_categories", self.max_categories, 1)
        whole_number("early_stopping_rounds", self.early_stopping_rounds, 1, none=True)
        whole_number("random_state", self.random_state, 0, (1 << 63) - 1)

    @classmethod
    def from_names(cls, values: Mapping[str, Any]) -> Parameters:
        """The parameters from their names; one that does not exist is refused.

        >>> Parameters.from_names({"learning_rat": 0.1})
        Traceback (most recent call last):
        rankgrove.errors.ParameterError: parameter must be one of objective, ...
        """
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise unknown_name("parameter", str(name), known)
        return cls(**values)

    def make_objective(self) -> Objective:
        """The objective with those of the parameters that are its own."""
        if isinstance(self.objective, Objective) or callable(self.objective):
            return make_objective(self.objective)
        chosen = self.objective
        if _is_auto(chosen):
            chosen = "yetirank" if _is_auto(self.metric) else "yetiloss"
        if not isinstance(chosen, str) or chosen not in OBJECTIVES:
            raise unknown_name("objective", str(chosen), OBJECTIVES)
        known = {field.name for field in fields(OBJECTIVES[chosen])}
        own = {}
        for name in OF_OBJECTIVE:
            value = _plain(getattr(self, name))
            if _is_auto(value):
                continue
            if name in known:
                own[name] = value
            elif name != "metric":
                raise ParameterError(
                    f"{name} must be left out for {chosen}, which has none. Got {value!r}."
                )
        return make_objective(chosen, **own)

    def make_grower(self) -> Growth:
        """How trees grow: as told, or as the objective's grow best.

        >>> Parameters().make_grower(), Parameters(max_leaves=31).make_grower()
        ('oblivious', 'leafwise')
        """
        if not _is_auto(self.grower):
            return cast("Growth", self.grower)
        others = (self.monotone, self.categorical)
        told = any(given is not None and len(given) for given in others)
        deep = self.max_depth is not None and self.max_depth > _DEEPEST
        if told or deep or not _is_auto(self.max_leaves):
            return "leafwise"
        return self.make_objective().grower

    def regularisation(self) -> Regularisation:
        """The numbers that depend on the objective where they are not given.

        >>> Parameters(objective="lambdamart").regularisation().l2
        20.0
        >>> Parameters(objective="yetirank").regularisation().l2_documents
        20.0
        """
        given = {
            name: float(value)
            for name in Regularisation._fields
            if not _is_auto(value := getattr(self, name))
        }
        own = dict(self.make_objective().training_defaults)
        if self.make_grower() == "oblivious":
            own |= {"l2": 0.0, "l2_documents": _OBLIVIOUS_L2}
        if given.keys() & {"l2", "l2_documents"}:
            # Who gives the one wants no other.
            own |= {"l2": 0.0, "l2_documents": 0.0}
        return Regularisation(**{**own, **given})

    def randomness(self) -> Randomness:
        """What oblivious trees have unless told where their forces are not drawn.

        >>> Parameters(objective="queryrmse").randomness()
        Randomness(bootstrap=1.0, split_noise=1.0)
        >>> Parameters(objective="yetirank").randomness()
        Randomness(bootstrap=0.0, split_noise=0.0)
        """
        bootstrap = split_noise = 0.0
        drawn = self.temperature is not None or self.make_objective().is_random
        if self.make_grower() == "oblivious" and not drawn:
            # Who takes a sample wants no other.
            bootstrap = _OBLIVIOUS_BOOTSTRAP if self.subsample == 1 else 0.0
            split_noise = _OBLIVIOUS_NOISE
        return Randomness(
            bootstrap if _is_auto(self.bootstrap) else float(self.bootstrap),
            split_noise if _is_auto(self.split_noise) else float(self.split_noise),
        )

    def metrics(self) -> list[Metric]:
        """What validation sets are measured by; the first decides."""
        chosen: Any = self.metric if self.eval_metric is None else self.eval_metric
        if _is_auto(chosen):
            chosen = _WATCHED
        alone = isinstance(chosen, (str, Metric)) or callable(chosen)
        several = [chosen] if alone or not isinstance(chosen, Iterable) else list(chosen)
        if not several:
            raise ParameterError("eval_metric must name at least one metric. Got none.")
        return [parse_metric(metric) for metric in several]

    def tree_options(self, n_documents: int) -> TreeOptions:
        """How trees of so many documents grow; memory is kept for the leaves they can have."""
        own = {field.name: getattr(self, field.name) for field in fields(TreeOptions)}
        numbers = self.regularisation()
        own |= {"l2": numbers.l2, "min_child_weight": numbers.min_child_weight}
        own["grower"] = self.make_grower()
        oblivious = own["grower"] == "oblivious"
        if _is_auto(self.min_samples_leaf):
            own["min_samples_leaf"] = _OBLIVIOUS_FEWEST if oblivious else _FEWEST
        if _is_auto(self.max_leaves):
            own["max_leaves"] = _LEAVES
        if oblivious:
            depth = _OBLIVIOUS_DEPTH if self.max_depth is None else int(self.max_depth)
            return TreeOptions(**{**own, "max_depth": depth, "max_leaves": 1 << depth})
        most = min(own["max_leaves"], max(2, n_documents // own["min_samples_leaf"]))
        if self.max_depth is not None and self.max_depth < 31:
            most = min(most, 1 << int(self.max_depth))
        return TreeOptions(**{**own, "max_leaves": int(most)})

    def as_json(self) -> dict[str, Any]:
        """The parameters as JSON values, for a file.

        An objective that is given as a value becomes a mapping of its own parameters and its
        name, and a mapping of features to signs becomes pairs, as features may be numbers.
        """
        values = {field.name: _as_json(getattr(self, field.name)) for field in fields(self)}
        if not isinstance(self.objective, str):
            values["objective"] = self.make_objective().as_json()
        if isinstance(self.monotone, Mapping):
            values["monotone"] = [_as_json(pair) for pair in self.monotone.items()]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Parameters:
        """The parameters that `as_json` wrote; other entries are left out.

        >>> given = Parameters(n_estimators=100, monotone={0: 1, "age": -1})
        >>> Parameters.from_json(given.as_json()) == given
        True
        """
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        for name in ("metric", "eval_metric"):
            if isinstance(known.get(name), str) and known[name].startswith("custom("):
                # A function of the user's own is not in the file.
                known[name] = AUTO if name == "metric" else None
        if isinstance(known.get("objective"), Mapping):
            known["objective"] = objective_from_json(known["objective"])
        monotone = known.get("monotone")
        if isinstance(monotone, list) and any(isinstance(entry, list) for entry in monotone):
            known["monotone"] = dict(monotone)
        return cls(**known)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def _as_json(value: Any) -> Any:
    if isinstance(value, Metric) or callable(value):
        return str(parse_metric(value))
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_as_json(entry) for entry in value]
    return _plain(value)


def _plain(value: Any) -> Any:
    """A Python number in place of one of NumPy, as parameter searches give them."""
    return value.item() if isinstance(value, np.generic) else value


def _list(name: str, value: Any, rule: str) -> None:
    if value is not None and not isinstance(value, (list, tuple, np.ndarray)):
        raise ParameterError(f"{name} must be {rule}, or None. Got {value!r}.")


def _real(name: str, value: Any, least: float, above: bool = False, most: float = math.inf) -> None:
    if (
        not is_number(value)
        or not math.isfinite(value)
        or not least <= value <= most
        or (above and value == least)
    ):
        rule = f"above {least}" if above else f"{least} or more"
        rule += "" if most == math.inf else f" and at most {most}"
        raise ParameterError(f"{name} must be a finite number {rule}. Got {value!r}.")


def _one_of(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        raise unknown_name(name, str(value), known)
