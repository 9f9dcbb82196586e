"""The objectives by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from rankgrove.errors import check_names, unknown_name
from rankgrove.objectives.base import Objective
from rankgrove.objectives.function import AbsentObjective, FunctionObjective
from rankgrove.objectives.listwise import XENDCG, ListMLE, ListNet, QueryRMSE, Softmax
from rankgrove.objectives.pairwise import LambdaMART, RankMART, YetiLoss, YetiRank
from rankgrove.objectives.pointwise import Logistic, Regression
from rankgrove.objectives.stochastic import StochasticRank

OBJECTIVES: dict[str, type[Objective]] = {
    objective.name: objective
    for objective in (
        LambdaMART, YetiLoss, YetiRank, RankMART, StochasticRank, QueryRMSE, XENDCG, Softmax,
        ListNet, ListMLE, Regression, Logistic,
    )
}  # fmt: skip


def objective_from_json(values: Mapping[str, Any]) -> Objective:
    """The objective that `Objective.as_json` wrote; of one that is not here, its name.

    >>> objective_from_json({"name": "lambdamart", "sigma": 2.0}).sigma
    2.0
    """
    parameters = dict(values)
    name = parameters.pop("name", None)
    if name not in OBJECTIVES:
        return AbsentObjective(values=tuple(values.items()))
    return make_objective(name, **parameters)


def make_objective(objective: str | Objective | Callable[..., Any], **parameters: Any) -> Objective:
    """The objective of this name with these parameters.

    Parameters
    ----------
    objective
        A name out of `OBJECTIVES`; an objective, of which the parameters change a copy; or a
        function as `FunctionObjective` takes it.

    >>> make_objective("lambdamart", sigma=2.0).sigma
    2.0
    """
    if isinstance(objective, Objective):
        _check_parameters(type(objective), parameters)
        return replace(objective, **parameters)
    if callable(objective):
        return make_objective(FunctionObjective(function=objective), **parameters)
    name = objective.lower() if isinstance(objective, str) else repr(objective)
    if name not in OBJECTIVES:
        raise unknown_name("objective", name, OBJECTIVES)
    _check_parameters(OBJECTIVES[name], parameters)
    return OBJECTIVES[name](**parameters)


def _check_parameters(objective: type[Objective], parameters: dict[str, Any]) -> None:
    known = [field.name for field in fields(objective)]
    check_names(f"a parameter of {objective.name}", parameters, known)
