"""What `tune` searches: trees, or networks, which PyTorch trains. What differs is here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankgrove.boosting.binned import SharedBins
from rankgrove.boosting.loop import Training
from rankgrove.boosting.parameters import Parameters
from rankgrove.data.dataset import Dataset
from rankgrove.training.network_parameters import FORCES_OF, NetworkParameters

if TYPE_CHECKING:
    from rankgrove.neural.training import NetworkTraining

    AnyParameters = Parameters | NetworkParameters
    AnyTraining = Training | NetworkTraining


@dataclass(frozen=True)
class Kind:
    """A kind of model.

    Attributes
    ----------
    unit
        What training adds one of at a time: a tree or an epoch.
    number
        The parameter that says how many.
    limit
        The argument of `tune` that says how many at most.
    most, rounds
        That limit by default, and the rounds without a better value after which a trial ends.
    """

    unit: str
    number: str
    limit: str
    most: int
    rounds: int

    def count(self, number: int) -> str:
        """So many of its units in words.

        >>> EPOCHS.count(1), TREES.count(1200)
        ('1 epoch', '1,200 trees')
        """
        return f"{number:,} {self.unit}{'' if number == 1 else 's'}"


TREES = Kind("tree", "n_estimators", "max_trees", 1000, 100)
EPOCHS = Kind("epoch", "max_epochs", "max_epochs", 100, 10)


def kind_of(objective: Any) -> Kind:
    """The kind of model that an objective trains."""
    return EPOCHS if isinstance(objective, str) and objective in FORCES_OF else TREES


def parameters_of(kind: Kind) -> type[AnyParameters]:
    """The parameters of training a kind."""
    return Parameters if kind is TREES else NetworkParameters


def make_estimator(parameters: dict[str, Any], **more: Any) -> Any:
    """A `Ranker`, `RankNet` or `LambdaRank` of these parameters, which name the objective."""
    if kind_of(parameters["objective"]) is TREES:
        from rankgrove.estimators.ranker import Ranker  # noqa: PLC0415 (brings scikit-learn)

        return Ranker(**parameters, **more)
    from rankgrove.neural.estimators import LambdaRank, RankNet  # noqa: PLC0415 (brings PyTorch)

    own = {name: value for name, value in parameters.items() if name != "objective"}
    made = {"ranknet": RankNet, "lambdarank": LambdaRank}[parameters["objective"]]
    return made(**own, **more)


def start_training(
    train: Dataset, valid: Dataset, parameters: AnyParameters, bins: SharedBins, n_jobs: int | None
) -> AnyTraining:
    """A run of training that has done nothing yet."""
    if isinstance(parameters, Parameters):
        return Training(train, {"valid": valid}, parameters, shared_bins=bins, n_jobs=n_jobs)
    from rankgrove.neural.training import NetworkTraining  # noqa: PLC0415 (brings PyTorch)

    return NetworkTraining(train, {"valid": valid}, parameters, n_jobs=n_jobs)


def n_done(training: AnyTraining) -> int:
    """How many trees or epochs a run has."""
    return len(training.trees) if isinstance(training, Training) else training.n_epochs


@contextmanager
def ends_if_diverged(kind: Kind) -> Iterator[None]:
    """Take it as the end, not as an error, if the scores of a network leave all bounds."""
    if kind is TREES:
        yield
        return
    from rankgrove.neural.training import DivergedError  # noqa: PLC0415 (brings PyTorch)

    try:
        yield
    except DivergedError:
        return


def versions_of(kind: Kind) -> dict[str, str]:
    """The packages whose version may change what a kind of model comes to."""
    if kind is TREES:
        return {}
    from importlib.metadata import version  # noqa: PLC0415 (for networks only)

    return {"torch": version("torch")}
