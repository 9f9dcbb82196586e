"""What estimators are made with: keywords that come from the parameters of training.

Editors and type checkers read `signatures.pyi` instead, which `python tools/generate.py` makes
from these classes; a test keeps it true.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from inspect import Parameter, Signature
from typing import Any

from rankgrove.boosting.parameters import OF_OBJECTIVE, Parameters
from rankgrove.rules import options_of
from rankgrove.training.network_parameters import NetworkParameters
from rankgrove.training.recipe import Recipe

# What all of them have besides: for each its default and type.
_OF_ALL = {"n_jobs": (None, int | None), "verbose": (False, bool)}

# The curvature of a row is 1 for squared error and at most 1/4 for two classes: `l2` is that of
# about five rows. A row of weight 2 is two rows, so that nothing is drawn by row.
_OF_REGRESSOR = {"n_estimators": 100, "l2": 5.0, "bootstrap": 0.0, "split_noise": 0.0}
_OF_CLASSIFIER = {**_OF_REGRESSOR, "l2": 1.0, "sigma": 1.0, "balanced": False}

# What single documents have no use for.
_OF_RANKING = {"objective", "eval_metric", "constraints", *OF_OBJECTIVE}


def _takes(
    parameters: type,
    defaults: Mapping[str, Any] | None = None,
    *,
    left_out: Collection[str] = (),
    **others: tuple[Any, Any],
) -> Callable[[Any], Any]:
    """Give a class an `__init__` that takes parameters by name, and an objective also first.

    Parameters
    ----------
    parameters
        The dataclass of parameters.
    defaults
        Defaults of its own.
    left_out
        Those that it has not, unless it has a default of its own for them.
    others
        Further ones, with their default and type.
    """
    own = defaults or {}
    entries = {
        name: (own.get(name, entry.default), entry.hint)
        for name, entry in options_of(parameters).items()
        if name not in left_out or name in own
    }
    signature = Signature(
        [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
        + [
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD if name == "objective" else Parameter.KEYWORD_ONLY,
                default=default,
                annotation=hint,
            )
            for name, (default, hint) in {**entries, **others, **_OF_ALL}.items()
        ]
    )

    def init(self: Any, *unnamed: Any, **named: Any) -> None:
        self._refuse(named)
        bound = signature.bind(self, *unnamed, **named)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    # scikit-learn reads the names of parameters here, and `help` shows them.
    init.__signature__ = signature  # type: ignore[attr-defined]
    init.__name__ = "__init__"

    def add(kind: Any) -> Any:
        kind.__init__, kind._parameters_type = init, parameters
        return kind

    return add


@_takes(Parameters, **{name: (one.default, one.hint) for name, one in options_of(Recipe).items()})
class RankerKeywords:
    """What a `Ranker` is made with."""


@_takes(Parameters, n_workers=(None, int | None))
class SparkRankerKeywords:
    """What a `SparkRanker` is made with."""


@_takes(NetworkParameters, left_out=["objective"], module=(None, Any))
class NetworkKeywords:
    """What a `RankNet` or `LambdaRank` is made with."""


@_takes(Parameters, _OF_REGRESSOR, left_out=_OF_RANKING)
class RegressorKeywords:
    """What a `MARTRegressor` is made with."""


@_takes(Parameters, _OF_CLASSIFIER, left_out=_OF_RANKING)
class ClassifierKeywords:
    """What a `MARTClassifier` is made with."""
