"""Where `tune` keeps its trials: an Optuna study, in a file of SQLite or any storage of Optuna's.

A trial is written when it is finished, in one transaction, and never before: whenever a process
ends, what the study has is a run of finished trials from the first on.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankgrove.data.streams import check_writable
from rankgrove.errors import DataError, ParameterError, need_extra

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial

NUMBER = "number"
# What a study of ours is known by: an attribute that says what it is about.
_MARK = "rankgrove"
_SQLITE = b"SQLite format 3\0"
_ADVICE = "It was left as it is: name another file."


def import_optuna() -> Any:
    """The package optuna; without it, an error that says how to install it."""
    try:
        import optuna  # noqa: PLC0415 (an extra, and 0.4 s)
    except ImportError as error:
        raise need_extra("optuna", "tune", "tune") from error
    return optuna


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Keep Optuna from logging each step; afterwards its level is what it was."""
    logging = import_optuna().logging
    level = logging.get_verbosity()
    logging.set_verbosity(max(level, logging.WARNING))
    try:
        yield
    finally:
        logging.set_verbosity(level)


class Trials:
    """The finished trials of a study, in their order.

    Attributes
    ----------
    where
        The storage, for messages.
    """

    def __init__(self, study: Study, where: str) -> None:
        self._study, self.where = study, where

    def finished(self) -> list[FrozenTrial]:
        """Those with the numbers 0, 1, 2, … without a gap.

        If two processes work on one study they find the same trials: the first one counts.
        """
        found: dict[int, FrozenTrial] = {}
        with _translated(self.where, "cannot be read", OSError, KeyError):
            trials = self._study.get_trials(deepcopy=False)
        for trial in trials:
            if trial.state.is_finished() and NUMBER in trial.user_attrs:
                found.setdefault(trial.user_attrs[NUMBER], trial)
        ordered: list[FrozenTrial] = []
        while len(ordered) in found:
            ordered.append(found[len(ordered)])
        return ordered

    def add(self, trial: FrozenTrial) -> None:
        """Keep one more, all of it or nothing."""
        problem = "cannot be written, but has all trials before this one"
        with _translated(self.where, problem, OSError, KeyError):
            self._study.add_trial(trial)


@contextmanager
def _translated(where: str, problem: str, *errors: type[Exception]) -> Iterator[None]:
    """Have what Optuna and SQLAlchemy raise, and these errors, say what was wrong in one line."""
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 (optuna brings it)

    try:
        yield
    except (import_optuna().exceptions.OptunaError, SQLAlchemyError, *errors) as error:
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        cause = " ".join(str(getattr(root, "orig", None) or root).split()).rstrip(".")
        raise DataError(f"{where}: {problem}: {cause}.") from None


@contextmanager
def open_study(storage: Any, name: str, about: Mapping[str, Any]) -> Iterator[Trials]:
    """The trials of the study of this name; it is made if it is not there.

    `about` says what the study is about, and must be what it was when the study was made.

    A file that is no study of ours, a study about something else, and a place that cannot be
    written to are refused before anything is changed.
    """
    if not isinstance(name, str) or not name:
        raise ParameterError(f"name must be the name of a study. Got {name!r}.")
    optuna = import_optuna()
    where, opened = "memory", None
    with quiet_optuna():
        if isinstance(storage, PathLike) or (isinstance(storage, str) and "://" not in storage):
            where = os.fspath(storage)
            _check_place(Path(where))
            _check_file(Path(where), name)
            opened = _open_url(_url_of(Path(where)), where)
        elif isinstance(storage, str):
            where = _without_password(storage)
            opened = _open_url(storage, where)
        elif isinstance(storage, optuna.storages.BaseStorage):
            where = f"a storage {type(storage).__name__}"
        elif storage is not None:
            raise ParameterError(
                f"storage must be a file, the URL of a data base or a storage of Optuna's. Got "
                f"{type(storage).__name__}."
            )
        try:
            study = _claim(opened or storage, name, where, about)
            yield Trials(study, where)
        finally:
            if opened is not None:
                opened.remove_session()
                opened.engine.dispose()


def _claim(storage: BaseStorage | None, name: str, where: str, about: Mapping[str, Any]) -> Study:
    about = json.loads(json.dumps(about))
    with _translated(where, "cannot be used to keep trials"):
        study: Study = import_optuna().create_study(
            storage=storage, study_name=name, direction="maximize", load_if_exists=True
        )
        attributes = study.user_attrs
        if not attributes and not study.get_trials(deepcopy=False):
            # New, or made by a process that ended right after.
            study.set_user_attr(_MARK, about)
            return study
    if _MARK not in attributes:
        raise DataError(
            f"{where}: study {name!r} must be one of rankgrove tune. Got one of another program. "
            f"It was left as it is: choose another name."
        )
    _check_about(attributes[_MARK], about, f"{where}: study {name!r}")
    return study


def _check_about(stored: Mapping[str, Any], about: Mapping[str, Any], which: str) -> None:
    """Refuse to go on with a study about something else, and say what differs."""
    for key, value in about.items():
        old = stored.get(key)
        if old == value:
            continue
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            part = next(k for k in [*value, *old] if value.get(k) != old.get(k))
            got = f"{part} {_shown(value, part)} in place of {_shown(old, part)}"
        else:
            got = f"{value!r} in place of {old!r}"
        raise DataError(
            f"{which} must go on with the {key} it was made with. Got {got}. It was left as it is: "
            f"choose another file or name for a new study."
        )


def _shown(values: Mapping[str, Any], part: str) -> str:
    return repr(values[part]) if part in values else "nothing"


def _check_place(path: Path) -> None:
    """Refuse a file that cannot be written, or one that is there and cannot be changed."""
    # SQLite keeps a journal beside its file.
    check_writable(path)
    try:
        if path.exists():
            with open(path, "ab"):
                pass
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}.") from None


def _check_file(path: Path, name: str) -> None:
    """Refuse a file that is something else than a file of our studies, by reading alone."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with open(path, "rb") as file:
        if file.read(len(_SQLITE)) != _SQLITE:
            raise DataError(
                f"{path}: must be a study of rankgrove tune, a data base of SQLite. Got another "
                f"kind of file. {_ADVICE}"
            )
    from optuna.storages._rdb.models import BaseModel  # noqa: PLC0415 (an extra)

    own = {*BaseModel.metadata.tables, "alembic_version"}
    try:
        # Opened to write, as a process that was killed may have left a journal to undo.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as base:
            tables = {
                row[0]
                for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            }
            if tables - own - {"sqlite_sequence"}:
                raise DataError(
                    f"{path}: must be a study of rankgrove tune. Got another data base, with a "
                    f"table {min(tables - own)!r}. {_ADVICE}"
                )
            if not {"studies", "trials", "study_user_attributes"} <= tables:
                return
            strangers = base.execute(
                "SELECT study_name FROM studies WHERE NOT EXISTS (SELECT 1 FROM "
                "study_user_attributes AS a WHERE a.study_id = studies.study_id AND a.key = ?) AND "
                "(study_name != ? OR EXISTS (SELECT 1 FROM study_user_attributes AS b WHERE "
                "b.study_id = studies.study_id) OR EXISTS (SELECT 1 FROM trials WHERE "
                "trials.study_id = studies.study_id))",
                (_MARK, name),
            ).fetchall()
    except sqlite3.Error as error:
        raise DataError(f"{path}: must be a sound data base of SQLite. Got: {error}.") from None
    if strangers:
        raise DataError(
            f"{path}: must be a study of rankgrove tune. Got study {strangers[0][0]!r} of another "
            f"program. {_ADVICE}"
        )


def _url_of(path: Path) -> str:
    from sqlalchemy.engine import URL  # noqa: PLC0415 (optuna brings it)

    url = URL.create("sqlite", database=str(path.absolute()))
    # Optuna takes braces for a place to fill in.
    return url.render_as_string().replace("{", "{{").replace("}", "}}")


def _open_url(url: str, where: str) -> Any:
    errors = RuntimeError, ValueError, KeyError, ImportError, OSError
    with _translated(where, "cannot be opened as a storage", *errors):
        return import_optuna().storages.RDBStorage(url)


def _without_password(url: str) -> str:
    from sqlalchemy.engine import make_url  # noqa: PLC0415 (optuna brings it)
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return "storage"
