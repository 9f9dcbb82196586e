"""How many models are trained and put together: effort, members, a mix, a last fit on all data."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

from rankgrove.boosting.parameters import OF_OBJECTIVE, Parameters, plain
from rankgrove.data.documents import Documents
from rankgrove.data.sparse_features import SparseFeatures
from rankgrove.errors import parameter, refusal, unknown_name
from rankgrove.objectives.pairwise import Pairwise
from rankgrove.objectives.registry import OBJECTIVES
from rankgrove.rules import AUTO, Auto, check_options, is_auto, option, options_of
from rankgrove.training.network_parameters import FORCES_OF, NetworkParameters
from rankgrove.training.starting import AnyParameters
from rankgrove.training.trainer import EPOCHS

RECIPE = "Several models"

# What `mix="auto"` chooses from, besides the objective that the parameters name: objectives whose
# models differ in kind. docs/members.md says on which data the list was chosen.
LIBRARY = (AUTO, "lambdamart", "queryrmse", "lambdarank")

Mix = str | Collection[str | Mapping[str, Any]]


class _Effort(NamedTuple):
    members: int
    mix: str | None
    refit: bool


_EFFORTS = {
    "low": _Effort(1, None, False),
    "medium": _Effort(5, None, False),
    "high": _Effort(3, AUTO, True),
}


def _check_mix(name: str, value: Any) -> None:
    if is_auto(value):
        return
    entries = split_mix(value)
    seen = set()
    for entry in entries:
        chosen = _objective_of(entry)
        if chosen not in (*OBJECTIVES, *FORCES_OF):
            raise unknown_name(f"a member of {parameter(name)}", chosen, [*OBJECTIVES, *FORCES_OF])
        key = chosen if isinstance(entry, str) else repr(sorted(entry.items()))
        if key in seen:
            advice = f"{parameter('members')} says how many of each there are"
            raise refusal(name, "name each member once", got=f"'{chosen}' twice", advice=advice)
        seen.add(key)


def split_mix(mix: Any) -> list[str | dict[str, Any]]:
    """The members of a mix: names, or parameters that name their objective.

    >>> split_mix("yetirank, queryrmse")
    ['yetirank', 'queryrmse']
    """
    if isinstance(mix, str):
        mix = mix.split(",")
    if not isinstance(mix, Collection) or isinstance(mix, Mapping) or not mix:
        raise refusal("mix", "be 'auto', or names of objectives with commas between", mix)
    entries: list[str | dict[str, Any]] = []
    for entry in mix:
        if isinstance(entry, str) and entry.strip():
            entries.append(entry.strip())
        elif isinstance(entry, Mapping) and isinstance(entry.get("objective"), str):
            entries.append(dict(entry))
        else:
            rule = "have members that are names of objectives, or parameters with an objective"
            raise refusal("mix", rule, entry)
    return entries


def _objective_of(entry: str | Mapping[str, Any]) -> str:
    return entry if isinstance(entry, str) else str(entry["objective"])


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How many models are trained and put together into one. docs/members.md has what each brings.

    >>> Recipe(effort="high").plan(has_valid=True)
    RecipePlan(members=3, mix='auto', refit=True)
    """

    effort: Literal["low", "medium", "high"] = option(
        "low",
        "One model; five of one objective; or the best of several kinds, three of each, fitted to "
        "all labelled data.",
        "What `members`, `mix` and `refit` are where they are left open. docs/members.md says what "
        "each costs and brings.",
        panel=RECIPE,
    )  # fmt: skip
    members: int | Auto = option(
        AUTO,
        "Train so many models of each kind, which differ by their seed, and average them.",
        panel=RECIPE, least=1, auto="1, with `effort` medium 5, with high 3",
    )  # fmt: skip
    mix: Mix | None = option(
        None,
        "Objectives to train models by and average, of trees and networks; 'auto' chooses them and "
        "their weights on folds of the training data.",
        "In Python also a list, in which a member may be a mapping of parameters of its own.",
        panel=RECIPE, metavar="NAME,...|auto", check=_check_mix, parse=lambda text: text,
        none="the `objective` alone, or 'auto' with `effort` high",
    )  # fmt: skip
    refit: bool | Auto = option(
        AUTO,
        "Train on the validation data, too, with a number of trees that is given or found by "
        "cross-validation.",
        panel=RECIPE,
        auto="false, or true with `effort` high where there are validation data",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_options(self)

    def plan(self, *, has_valid: bool) -> RecipePlan:
        """What is done, with nothing left open."""
        usual = _EFFORTS[self.effort]
        refit = usual.refit and has_valid if is_auto(self.refit) else bool(self.refit)
        if refit and not has_valid:
            raise refusal(
                "refit", "have validation data, which the last fit adds to the training data",
                got="none", advice="give them, or leave it out",
            )  # fmt: skip
        members = usual.members if is_auto(self.members) else int(self.members)
        return RecipePlan(members, usual.mix if self.mix is None else self.mix, refit)

    def as_json(self) -> dict[str, Any]:
        """As JSON values, for a file."""
        values = {field.name: plain(getattr(self, field.name)) for field in fields(self)}
        if values["mix"] is not None and not isinstance(values["mix"], str):
            values["mix"] = json.loads(json.dumps(split_mix(values["mix"])))
        return values


@dataclass(frozen=True)
class RecipePlan:
    """What a recipe comes to: members of each kind, the mix or None, whether to fit at last to all.

    >>> RecipePlan(1, None, False).is_single
    True
    """

    members: int
    mix: Any
    refit: bool

    @property
    def is_single(self) -> bool:
        """Whether it is one model, trained as usual."""
        return self.members == 1 and self.mix is None and not self.refit


class Kind(NamedTuple):
    """A kind of member: what tables call it, and how one is trained."""

    name: str
    parameters: AnyParameters


def kinds_of(parameters: AnyParameters, mix: Any) -> list[Kind]:
    """The kinds of models that a mix asks for, or of which 'auto' may choose.

    Parameters of the run count for every kind that has them; what belongs to one objective only is
    left out for the others. A network has its own `learning_rate`, and as many epochs as usual.

    >>> kinds = kinds_of(Parameters(permutations=5), "yetirank, queryrmse")
    >>> [kind.name for kind in kinds], kinds[0].parameters.permutations
    (['yetirank', 'queryrmse'], 5)
    """
    if mix is None:
        return [Kind(_name_of(parameters), parameters)]
    if not isinstance(parameters, Parameters):
        raise refusal("mix", "be used with parameters of trees: networks are members of it",
                      mix, advice=f"leave out {parameter('objective')}")  # fmt: skip
    if is_auto(mix):
        own = [] if is_auto(parameters.objective) else [parameters]
        named = [_kind_parameters(parameters, name) for name in LIBRARY]
        found = {_name_of(one): Kind(_name_of(one), one) for one in [*own, *named]}
        return list(found.values())
    if not is_auto(parameters.objective):
        rule = f"be left out with a {parameter('mix')}, which names the objectives"
        raise refusal("objective", rule, parameters.objective)
    kinds: list[Kind] = []
    for entry in split_mix(mix):
        made = _kind_parameters(parameters, _objective_of(entry))
        name = _name_of(made)
        if isinstance(entry, dict):
            made = type(made).from_names(
                {field.name: getattr(made, field.name) for field in fields(made)} | entry
            )
        same = sum(kind.name.split(" ")[0] == name for kind in kinds)
        kinds.append(Kind(f"{name} {same + 1}" if same else name, made))
    return kinds


def _name_of(parameters: AnyParameters) -> str:
    if isinstance(parameters, NetworkParameters):
        return parameters.objective
    return parameters.make_objective().name


def _kind_parameters(parameters: Parameters, objective: str) -> AnyParameters:
    """The parameters of a member with this objective: those of the run that it has."""
    if objective in FORCES_OF:
        names = ("metric", "eval_metric", "random_state", "sigma", "truncation", "normalise")
        chosen = {name: getattr(parameters, name) for name in names}
        rounds = parameters.early_stopping_rounds
        if rounds is not None:
            # Epochs are far fewer than trees.
            chosen["early_stopping_rounds"] = min(rounds, EPOCHS.tune_rounds)
        return NetworkParameters(objective=objective, **chosen)  # type: ignore[arg-type]
    if is_auto(objective):
        return replace(parameters, objective=AUTO)
    known = options_of(OBJECTIVES[objective])
    foreign: dict[str, Any] = {
        name: AUTO for name in OF_OBJECTIVE if name not in known and name != "metric"
    }
    # What needs pairs is for objectives of pairs only.
    of_pairs = issubclass(OBJECTIVES[objective], Pairwise) or parameters.leaf == "mean"
    leaf = parameters.leaf if of_pairs else "newton"
    return replace(parameters, objective=objective, leaf=leaf, **foreign)


def why_no_network(train: Documents) -> str | None:
    """Why networks cannot be members on these data, or None."""
    if find_spec("torch") is None:
        return "PyTorch is not installed (pip install 'rankgrove[neural]')"
    features = getattr(train, "features", None)
    if features is None:
        return "the data are binned"
    if isinstance(features, SparseFeatures):
        return "the data are sparse"
    if train.levels:
        return "features have categories that are no numbers"
    return None
