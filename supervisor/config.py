"""Where the database is and how `run` shall work: flags, environment and sqljobs.toml as one effective configuration.

Checks names and shapes; what a value may be is said where it is used. Opens no database."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.renderings import one_line, shown
from sqljobs.schema.values import nearest

DEFAULT_URL = "sqlite:///sqljobs.db"
FILE_NAME = "sqljobs.toml"
TOP_KEYS = ("url", "schema", "run", "limits", "devices")
LISTS = ("handlers", "only_type", "only_group")
RUN_KEYS = (
    *LISTS,
    *("app_dir", "slots", "name", "until_idle", "heartbeat", "ttl", "deadline", "kill_grace", "grace", "poll"),
    *("aging", "on_lease_lost"),
)
RUN_KEYS_NOT_YET = ("device", "device_env", "no_preload", "start_method")
NOT_YET = "not built yet in this version of sqljobs: take it out"


@dataclass(frozen=True)
class Config:
    """What holds for one call of the command line. `run`: keywords of `Supervisor`, and `handlers`, `app_dir`."""

    url: str = field(repr=False)  # it may hold a password
    schema: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)


def effective_config(
    *, url: str | None, schema: str | None, config_file: str | None, environ: Mapping[str, str]
) -> Config:
    """Flags (None: not given) before environment before file before defaults; an empty variable counts as unset.

    Raises `InvalidJob`, naming the file, for one that cannot be read and for a key that it must not hold."""
    stored = _read_file(config_file)
    return Config(
        url=url or environ.get("SQLJOBS_URL") or _url_of_file(environ) or stored.get("url") or DEFAULT_URL,
        schema=schema or environ.get("SQLJOBS_SCHEMA") or stored.get("schema") or None,
        run=stored.get("run", {}),
    )


def _url_of_file(environ: Mapping[str, str]) -> str | None:
    name = environ.get("SQLJOBS_URL_FILE")
    if not name:
        return None
    url = _text_of(Path(name), "SQLJOBS_URL_FILE").strip()
    if not url or "\n" in url:
        raise InvalidJob(f"SQLJOBS_URL_FILE: {name} must hold the database URL on one line and nothing else")
    return url


def _read_file(name: str | None) -> dict[str, Any]:
    path = Path(name or FILE_NAME)
    if name is None and not path.exists():
        return {}
    text = _text_of(path, "--config" if name else "the configuration")
    try:
        stored = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidJob(f"{path} is not TOML: {one_line(error)}") from None
    return _checked(str(path), stored)


def _text_of(path: Path, what: str) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidJob(f"{what}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidJob(f"{what}: {path} cannot be read: it is not UTF-8") from None


def _checked(file: str, stored: dict[str, Any]) -> dict[str, Any]:
    for key in stored:
        if key not in TOP_KEYS:
            raise InvalidJob(f"{file}: unknown key {shown(key)}{nearest(key, TOP_KEYS)}")
    for key in ("url", "schema"):
        if not isinstance(stored.get(key, ""), str):
            raise InvalidJob(f"{file}: {key} must be text")
    for key in ("run", "limits", "devices"):
        if not isinstance(stored.get(key, {}), dict):
            raise InvalidJob(f"{file}: {key} must be a table: write [{key}] above its keys")
    for key in ("limits", "devices"):
        if stored.get(key):
            raise InvalidJob(f"{file}: [{key}.{one_line(next(iter(stored[key])))}] is {NOT_YET}")
    return {**stored, "run": _checked_run(file, stored.get("run", {}))}


def _checked_run(file: str, run: dict[str, Any]) -> dict[str, Any]:
    for key in run:
        if key in RUN_KEYS_NOT_YET:
            raise InvalidJob(f"{file}: {key} in [run] is {NOT_YET}")
        if key not in RUN_KEYS:
            raise InvalidJob(f"{file}: unknown key {shown(key)} in [run]{nearest(key, RUN_KEYS)}")
    if not isinstance(run.get("until_idle", False), bool):
        raise InvalidJob(f"{file}: until_idle in [run] must be true or false")
    if not isinstance(run.get("app_dir", ""), str):
        raise InvalidJob(f"{file}: app_dir in [run] must be the text of a path")
    return {**run, **{key: _texts(file, key, run[key]) for key in LISTS if key in run}}


def _texts(file: str, key: str, value: object) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise InvalidJob(f'{file}: {key} in [run] must be text or a list of texts, such as ["a", "b"]')
    return tuple(listed)
