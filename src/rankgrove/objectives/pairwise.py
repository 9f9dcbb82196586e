"""The pairwise objective: every pair of a query pulls its better document above the other.

All of its forms minimise `sum over pairs of w_ij * log(1 + exp(-sigma (z_i - z_j)))`, with
label i > label j, and differ in the weight of a pair only:

    w_ij = mean over rankings by z + noise of |swap delta| 1{|p_i - p_j| <= neighbours}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

from rankgrove.data.documents import Documents
from rankgrove.errors import refusal
from rankgrove.metrics.base import Metric, Rankings
from rankgrove.metrics.custom import Custom
from rankgrove.metrics.discounted import ExpDCG
from rankgrove.metrics.forms import PAIRS, Form
from rankgrove.metrics.spec import MetricLike, parse_metric
from rankgrove.metrics.sums import MetricSum
from rankgrove.objectives.base import LARGEST, Forces, Objective
from rankgrove.objectives.pair_forces import PairForces, PlainForces
from rankgrove.objectives.recomputed import RecomputedForces
from rankgrove.objectives.summed import of_one_metric, prepare_sum
from rankgrove.objectives.weights import weigh_pairs, with_distances
from rankgrove.rules import AUTO, is_auto, option, options_of

Noise = Literal["none", "logistic", "gaussian", "gumbel"]
OneRanking = Literal["worst", "best", "stable"]
Weighting = Literal["swap_delta", "ndcg_loss2", "ndcg_loss2++"]

# The truncation of LambdaMART unless told, as measured in docs/truncation.md: LightGBM's where the
# metric has no cut-off, none for one that leaves pairs enough, some ranks more for a smaller one.
_TRUNCATION, _LARGE_CUTOFF, _BELOW_CUTOFF = 30, 10, 20


@dataclass(frozen=True, kw_only=True)
class Pairwise(Objective):
    """Pairs weighted by what swapping their two documents would change in a metric.

    With the documents of a query ranked by score, or by score and noise, a pair with label i >
    label j and rho = 1 / (1 + exp(sigma (z_i - z_j))) gives

        force_i += sigma w rho,  force_j -= sigma w rho,
        curvature_i and curvature_j += sigma^2 w rho (1 - rho),  w = |swap delta|.

    Weights of documents multiply w: a pair counts the product of the two.
    The noise decides the ranking only: rho takes the scores themselves. A query of one document,
    with equal labels only or without any gain has no force. Equal scores are ranked by the tie
    policy of the metric, against the model by default (Lyzhin et al. 2022, section 2.2).

    Parameters
    ----------
    sigma
        How steep the logistic function is.
    truncation
        A number T counts only pairs whose better-ranked document is among the first T. For DCG
        and NDCG it is LightGBM's form: it also takes the place of the metric's cut-off in the
        ideal DCG, and the discounts have none. None takes the swap delta as it is.
    truncation_anchors
        `ideal` also counts the pairs of documents that are among the first T of the ideal ranking,
        by what the metric sees in them and, of equal ones, by rank (Lambda-eX: Marcuzzi, Lucchese,
        Orlando 2023). Without a truncation no pair below the cut-off of the metric has a weight.
    normalise
        As LightGBM's `lambdarank_norm`: w is divided by 0.01 + |z_i - z_j|, unless all scores
        of the query are equal, and then all forces and curvatures of the query are multiplied
        by log2(1 + S) / S, where S is the sum of the absolute forces that its pairs put on
        both of their documents.
    noise, noise_scale
        What is added to the scores before ranking: `none`, `logistic`, `gaussian` or `gumbel`
        noise, multiplied by the scale.
    noise_in_margin
        Whether rho takes the scores with their noise, too (Bruch et al. 2020, with Gumbel noise).
    neighbours, neighbours_exactly
        Only pairs that are so many ranks apart, or fewer; `all` counts every pair, and so does
        `sample`, but of a query with more than 8 million pairs of different labels it draws 8
        million for each tree. Or only those that are exactly so many ranks apart (Lyzhin et al.
        2022, section 4.3).
    permutations
        How many rankings with noise are averaged; without noise there is one.
    """

    sigma: float = option(1.0, "Steepness of the logistic curve of a pair.", above=0, below=LARGEST)
    truncation: int | None = option(
        None,
        "Count only pairs whose better-ranked document, the one with the higher score, is within "
        "so many first ranks; for ndcg and dcg it also takes the place of the metric's cut-off.",
        least=1,
        none="the metric's own cut-off",
    )
    truncation_anchors: Literal["ranked", "ideal"] = option(
        "ranked",
        "ideal: with a truncation, pairs of documents that belong to so many first ranks of the "
        "ideal ranking count, too, wherever these stand.",
    )
    normalise: bool = option(False, "Scale the forces of each query to a comparable size.")
    noise: Noise = option("none", "Noise that rankings are drawn with.")
    noise_scale: float = option(1.0, "Scale of that noise.", above=0, below=LARGEST)
    noise_in_margin: bool = option(False, "Compare the documents of a pair with their noise, too.")
    neighbours: int | Literal["all", "sample"] = option(
        "all", "How many ranks the documents of a pair may be apart.", least=1
    )
    neighbours_exactly: int | None = option(
        None,
        "How many ranks the documents of a pair are apart, not more and not fewer.",
        least=1,
        none="what neighbours says",
    )
    permutations: int = option(1, "Rankings that are drawn with noise.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        default = options_of(type(self))["neighbours"].default
        usual = ("sample", "all", 1) if is_auto(default) else ("all", default)
        if self.neighbours_exactly is not None and self.neighbours not in usual:
            raise refusal("neighbours", "be left out with neighbours_exactly", self.neighbours)
        if self.noise_in_margin and not self.is_random:
            raise refusal("noise_in_margin", "be left out without noise", self.noise_in_margin)
        if self.truncation_anchors == "ideal" and self.truncation is None:
            raise refusal(
                "truncation_anchors", "be ranked without a truncation", self.truncation_anchors,
                advice="give a truncation, as pairs past the metric's cut-off weigh nothing",
            )  # fmt: skip
        if self._tie_policy == "expected" and not self.is_random:
            raise refusal(
                "metric",
                "say ties=worst, best or stable to train without noise, as a force is that of one "
                "ranking",
                got=str(self._weighs_by),
            )

    @property
    def is_random(self) -> bool:
        return self.noise != "none"

    @property
    def n_rankings(self) -> int:
        """How many rankings are averaged."""
        return self.permutations if self.is_random else 1

    @property
    def takes_all_pairs(self) -> bool:
        """Whether no pair is left out or scaled, by its ranks or by its scores."""
        return self.takes_all_ranks and not self.is_random and not self.normalise

    @property
    def takes_all_ranks(self) -> bool:
        """Whether no pair is left out by its ranks."""
        metric = self._weighs_by
        is_cut = self.truncation is not None or (metric is not None and metric.k is not None)
        return self.has_all_neighbours and not is_cut

    @property
    def has_all_neighbours(self) -> bool:
        """Whether the documents of a pair may be any number of ranks apart."""
        return self.neighbours in ("all", "sample") and self.neighbours_exactly is None

    def distances(self, longest: int) -> tuple[int, int]:
        """The fewest and the most ranks that the documents of a pair may be apart."""
        if self.neighbours_exactly is not None:
            return int(self.neighbours_exactly), int(self.neighbours_exactly)
        return 1, longest if self.has_all_neighbours else int(self.neighbours)

    @property
    def _weighs_by(self) -> Metric | None:
        """The metric whose swap deltas weigh pairs; None if all count the same."""
        raise NotImplementedError

    @property
    def _tie_policy(self) -> str:
        """How equal scores are ranked; with noise there are none."""
        metric = self._weighs_by
        return "stable" if metric is None else metric.ties

    def _weigh(self, metric: Metric | None, rankings: Rankings) -> Form | None:
        return weigh_pairs(metric, rankings, self.truncation)

    def prepare(self, data: Documents, n_jobs: int | None = None, seed: int = 0) -> Forces:
        metric = self._weighs_by
        rankings = Rankings.of_data(data, data.labels, n_jobs)
        form = self._weigh(metric, rankings)
        # With noise there are no ties, and where every pair counts the same no ranks.
        ranks_count = not (self.is_random or (metric is None and self.takes_all_pairs))
        tie_order = rankings.tie_order(self._tie_policy if ranks_count else "stable")
        if form is None or form.kind == PAIRS:
            return RecomputedForces(self, cast("Metric", metric), data, tie_order, n_jobs, seed)
        plain = metric is None and self.takes_all_pairs and data.document_weights is None
        kind = PlainForces if plain else PairForces
        return kind(self, form, data, tie_order, n_jobs, seed)


@dataclass(frozen=True, kw_only=True)
class _WithoutMetric(Pairwise):
    """Pairs whose weights are no choice, so that the tie policy is a parameter."""

    ties: OneRanking = option(
        "worst", "How equal scores are ranked where there is no noise: worst is against the model."
    )

    @property
    def _tie_policy(self) -> str:
        return self.ties


@dataclass(frozen=True, kw_only=True)
class RankMART(_WithoutMetric):
    """RankNet on trees: every pair with different labels counts the same.

    >>> import numpy as np
    >>> from rankgrove import Dataset
    >>> data = Dataset.from_arrays([[0.0]] * 2, [0, 1], group=[2])
    >>> forces, curvatures = np.empty(2), np.empty(2)
    >>> RankMART().prepare(data).compute(np.zeros(2), 0, forces, curvatures)
    >>> forces.tolist(), curvatures.tolist()
    ([-0.5, 0.5], [0.25, 0.25])
    """

    name: ClassVar[str] = "rankmart"
    title: ClassVar[str] = "RankMART"
    formula: ClassVar[str] = "sum_ij log(1 + exp(-sigma (z_i - z_j)))"
    reference: ClassVar[str] = "Burges 2010, section 2; Tunys 2015"

    @property
    def _weighs_by(self) -> Metric | None:
        return None


@dataclass(frozen=True, kw_only=True)
class _ByMetric(Pairwise):
    """Pairs weighted by the swap delta of a metric that can be chosen."""

    metric: MetricLike = option(
        "ndcg", "What the objective optimises, with its cut-off.", metavar="METRIC"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "metric", parse_metric(self.metric))
        if isinstance(self.metric, MetricSum):
            for part, _ in self.metric.parts:
                # What one of them cannot be trained with is refused here.
                replace(self, metric=part)

    @property
    def _weighs_by(self) -> Metric | None:
        return parse_metric(self.metric)

    def prepare(self, data: Documents, n_jobs: int | None = None, seed: int = 0) -> Forces:
        metric = parse_metric(self.metric)
        if of_one_metric(metric):
            return super().prepare(data, n_jobs, seed)
        return prepare_sum(self, metric, data, n_jobs, seed)


@dataclass(frozen=True, kw_only=True)
class LambdaMART(_ByMetric):
    """Pairs weighted by the swap delta of a metric in the ranking by score.

    Parameters
    ----------
    truncation
        `auto` is None for a metric with a cut-off of 10 or more, which then means what it says. A
        smaller one leaves few pairs: 20 ranks more are taken. It is 30 for one without.
    weighting, loss2_factor
        `ndcg_loss2` and `ndcg_loss2++` weigh pairs by LambdaLoss, a bound of the metric: with
        ranks a < b and d = b - a, |G_a - G_b| times D(d) - D(d + 1), or times D(a) - D(b) +
        loss2_factor (D(d) - D(d + 1)) (NDCG-Loss2 and NDCG-Loss2++ of Wang et al. 2018; the factor
        is their mu, and its default that of allRank and of Sentence Transformers). For metrics with
        discounts; distances of ranks know no cut-off.

    Examples
    --------
    >>> [LambdaMART(metric=name).truncation for name in ("ndcg@5", "ndcg@10", "ndcg")]
    [25, None, 30]
    >>> import numpy as np
    >>> from rankgrove import Dataset
    >>> data = Dataset.from_arrays([[0.0]] * 3, [0, 2, 1], group=[3])
    >>> forces, curvatures = np.empty(3), np.empty(3)
    >>> objective = LambdaMART(metric="ndcg@1", truncation=None, normalise=False)
    >>> objective.prepare(data).compute(np.array([2.0, 1.0, 0.0]), 0, forces, curvatures)
    >>> forces.round(4).tolist()
    [-1.0247, 0.7311, 0.2936]
    """

    truncation: int | None = option(
        AUTO,
        auto=f"the metric's cut-off, {_BELOW_CUTOFF} more for one below {_LARGE_CUTOFF}, or "
        f"{_TRUNCATION} where it has none",
        settle=lambda objective: _unless_several(objective.metric, default_truncation),
    )
    normalise: bool = True
    weighting: Weighting = option(
        "swap_delta", "What weighs pairs: swap deltas, or LambdaLoss, which bounds the metric."
    )
    loss2_factor: float = option(
        10.0, "How much NDCG-Loss2 counts beside swap deltas in ndcg_loss2++.", least=0
    )

    name: ClassVar[str] = "lambdamart"
    title: ClassVar[str] = "LambdaMART"
    formula: ClassVar[str] = "sum_ij |swap delta_ij| * log(1 + exp(-sigma (z_i - z_j)))"
    reference: ClassVar[str] = "Burges 2010, section 7 and eq. (6)"
    grower: ClassVar[Literal["leafwise", "depthwise", "oblivious"]] = "leafwise"
    # The curvatures of a query are scaled to a comparable size.
    training_defaults: ClassVar[dict[str, float]] = {
        "l2": 20.0,
        "l2_documents": 0.0,
        "min_child_weight": 1e-3,
    }

    def _weigh(self, metric: Metric | None, rankings: Rankings) -> Form | None:
        form = super()._weigh(metric, rankings)
        if self.weighting == "swap_delta":
            return form
        alone = self.weighting == "ndcg_loss2"
        factor = 1.0 if alone else float(self.loss2_factor)
        return with_distances(form, metric, factor, alone=alone)


def _unless_several(metric: MetricLike, settle: Callable[[Metric], Any]) -> Any:
    """What `auto` comes to for a metric; of several each has its own, and it stays `auto`."""
    parsed = parse_metric(metric)
    return AUTO if isinstance(parsed, MetricSum) else settle(parsed)


def default_truncation(metric: MetricLike) -> int | None:
    """The truncation of LambdaMART unless told, by the cut-off of the metric.

    >>> [default_truncation(metric) for metric in ("ndcg@1", "ndcg@10", "ndcg")]
    [21, None, 30]
    """
    cutoff = parse_metric(metric).k
    if cutoff is None:
        return _TRUNCATION
    return None if cutoff >= _LARGE_CUTOFF else cutoff + _BELOW_CUTOFF


@dataclass(frozen=True, kw_only=True)
class YetiRank(_WithoutMetric):
    """Neighbours in noisy rankings, weighted by the difference of labels and a geometric discount.

    Parameters
    ----------
    decay
        b of the discount b^(rank - 1).

    Examples
    --------
    >>> YetiRank().permutations
    10
    """

    decay: float = option(0.85, "Base of YetiRank's discount.", above=0, below=1)
    noise: Noise = "logistic"
    neighbours: int | Literal["all", "sample"] = 1
    permutations: int = 10

    name: ClassVar[str] = "yetirank"
    title: ClassVar[str] = "YetiRank"
    formula: ClassVar[str] = (
        "sum_ij E|(r_i - r_j) (b^(p_i - 1) - b^(p_j - 1))| 1{neighbours} "
        "* log(1 + exp(-sigma (z_i - z_j)))"
    )
    reference: ClassVar[str] = "Gulin et al. 2011; Lyzhin et al. 2022, section 2.3"

    @property
    def _weighs_by(self) -> Metric | None:
        return ExpDCG(b=self.decay, ties=self.ties)


@dataclass(frozen=True, kw_only=True)
class YetiLoss(_ByMetric):
    """Pairs in noisy rankings, weighted by the swap delta of a metric.

    Lyzhin et al. count neighbours only: `neighbours=1`. On small data all pairs do better, and as
    each ranking then has many, few rankings do: docs/neighbours.md. So `neighbours="auto"` is
    `sample`, or 1 for a metric that is a function, which is computed anew for every pair; and
    `permutations="auto"` is 3 where all pairs count, 10 else. A sample counts for all pairs: in
    the mean the forces are the same.

    >>> YetiLoss(metric="map").neighbours, YetiLoss(metric="map").permutations
    ('sample', 3)
    >>> YetiLoss(neighbours=1).permutations
    10
    """

    noise: Noise = "logistic"
    neighbours: int | Literal["all", "sample"] = option(
        AUTO,
        auto="sample, or 1 for a metric that is a function",
        settle=lambda loss: _unless_several(
            loss.metric, lambda metric: 1 if isinstance(metric, Custom) else "sample"
        ),
    )
    permutations: int = option(
        AUTO,
        auto="3 where all pairs count, 10 else",
        settle=lambda loss: (
            AUTO if is_auto(loss.neighbours) else 3 if loss.distances(2) == (1, 2) else 10
        ),
    )

    name: ClassVar[str] = "yetiloss"
    title: ClassVar[str] = "YetiLoss"
    formula: ClassVar[str] = (
        "sum_ij E[|swap delta_ij| 1{neighbours}] * log(1 + exp(-sigma (z_i - z_j)))"
    )
    reference: ClassVar[str] = "Lyzhin et al. 2022, section 3.1"
