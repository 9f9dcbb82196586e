"""The models that a service scores with, and how they are replaced while it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankgrove.data.files import StrPath
from rankgrove.data.json_numbers import read_apart
from rankgrove.errors import DataError, ParameterError, RankgroveError, refusal
from rankgrove.model.base import ScoringModel, load_with_checksum
from rankgrove.model.scorer import Scorer
from rankgrove.serving.refusals import NOT_FOUND, RequestError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# As many documents as a query often has: what is scored before a model is ready.
_WARM_UP_DOCUMENTS = 100

# What became of a file that changed.
LOADED, UNCHANGED, REFUSED = "loaded", "unchanged", "refused"


class Stamp(NamedTuple):
    """What tells, without reading it, that a file is not the one of before."""

    size: int
    changed: int
    inode: int

    @classmethod
    def of(cls, path: StrPath) -> Stamp | None:
        try:
            status = os.stat(path)
        except OSError:
            return None
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


@dataclass(frozen=True)
class ServedModel:
    """A model that has scored once. Immutable: a request takes one and keeps it to its end.

    Attributes
    ----------
    name
        By which requests ask for it.
    path
        Its file.
    scorer
        What scores.
    checksum
        Of the file.
    stamp
        Of the file when it was read.
    """

    name: str
    path: str
    scorer: Scorer
    checksum: str
    stamp: Stamp | None

    @property
    def model(self) -> ScoringModel:
        return self.scorer.model

    @property
    def identity(self) -> str:
        return f"{self.name}@{self.checksum}"


class Reload(NamedTuple):
    """What became of a file that changed, and why, for the log."""

    name: str
    result: str
    message: str


class ModelStore:
    """The served models by name; the first is the one that a request without a name means.

    Parameters
    ----------
    paths
        The file of each model by its name.
    shadows
        For the name of a model, that of another one which scores the same requests unseen.
    """

    def __init__(self, paths: Mapping[str, StrPath], shadows: Mapping[str, str]) -> None:
        if not paths:
            raise refusal("models", "name at least one model", got="none")
        for name in paths:
            check_name(name)
        self._served = {name: read_served(name, os.fspath(path)) for name, path in paths.items()}
        self._stamps = {name: served.stamp for name, served in self._served.items()}
        self._shadows = dict(shadows)
        for name, other in self._shadows.items():
            self._check_shadow(name, other)

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(list(self._served.values()))

    @property
    def names(self) -> list[str]:
        return list(self._served)

    def get(self, name: str | None = None) -> ServedModel:
        """The model of a name, as it is now."""
        if name is None:
            return next(iter(self._served.values()))
        served = self._served.get(name)
        if served is None:
            known = ", ".join(self._served)
            raise RequestError(
                f"the model must be one that is served: {known}. Got {name[:80]!r}.", NOT_FOUND
            )
        return served

    def shadow_of(self, name: str) -> ServedModel | None:
        """The model that scores the requests of another unseen, if there is one."""
        other = self._shadows.get(name)
        return None if other is None else self._served[other]

    def reload_changed(self) -> list[Reload]:
        """Read the files that have changed; a model is replaced by a sound one only."""
        return [
            self._reload(served)
            for served in self
            if (stamp := Stamp.of(served.path)) is not None and stamp != self._stamps[served.name]
        ]

    def _reload(self, old: ServedModel) -> Reload:
        # Taken before reading: a file that changes meanwhile is read again at the next look.
        self._stamps[old.name] = Stamp.of(old.path)
        try:
            new = read_served(old.name, old.path)
            if new.model.feature_names != old.model.feature_names:
                raise DataError(
                    f"{old.path}: must have the features of the model that it replaces, in their "
                    f"order. Got others: start the service anew to serve it."
                )
        except RankgroveError as error:
            return Reload(old.name, REFUSED, f"{error} The old model goes on serving.")
        if new.checksum == old.checksum:
            return Reload(old.name, UNCHANGED, f"{old.path}: the same model as before.")
        self._served[old.name] = new
        return Reload(old.name, LOADED, f"{old.path}: now serving {new.identity}.")

    def _check_shadow(self, name: str, other: str) -> None:
        for each in (name, other):
            if each not in self._served:
                raise refusal(
                    "shadow", f"name models that are served: {', '.join(self._served)}", each
                )
        if name == other:
            raise refusal("shadow", "name another model than the one that answers", other)
        if self.get(name).model.feature_names != self.get(other).model.feature_names:
            raise DataError(
                f"a shadow must have the features of the model that answers, in their order. Got "
                f"others in {other!r} than in {name!r}."
            )


def read_served(name: str, path: str) -> ServedModel:
    """Read, check and warm up a model, so that no request waits for what is done once."""
    stamp = Stamp.of(path)
    model, checksum = load_with_checksum(path)
    if model.schema.needs_base_scores:
        raise ParameterError(
            f"{path}: must be a model that scores by itself. Got one that was trained on top of "
            f"base scores, which requests do not have: combine both into one model."
        )
    scorer = model.scorer()
    unknown = np.full((_WARM_UP_DOCUMENTS, model.n_features), np.nan, dtype=np.float32)
    scorer.score_matrix(unknown)
    if model.adds_up:
        scorer.contributions_of_matrix(unknown[:1])
    read_apart(b"[0]", 0, 1, 0)
    return ServedModel(name, path, scorer, checksum, stamp)


def check_name(name: str) -> None:
    """Refuse a name that would not stand in an address as it is."""
    if not _NAME.fullmatch(name):
        raise refusal(
            "the name of a model",
            "be up to 64 letters, digits, dots, dashes or underscores, a letter or digit first",
            name,
            advice="name it, as in NAME=MODEL",
        )
