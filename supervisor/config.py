"""Where the database is and how `run` shall work: flags, environment and sqljobs.toml as one effective configuration.

Checks names and shapes; what a value may be is said where it is used. Opens no database."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.limit_rules import KEYWORDS, check_limit
from sqljobs.schema.renderings import one_line, shown
from sqljobs.schema.values import nearest
from sqljobs.supervisor.devices import units_by_name, variables_by_name

DEFAULT_URL = "sqlite:///sqljobs.db"
FILE_NAME = "sqljobs.toml"
TOP_KEYS = ("url", "schema", "run", "limits", "devices")
LISTS = ("handlers", "only_type", "only_group", "device", "device_env")
DEVICE_KEYS = ("units", "env")
RUN_KEYS = (
    *LISTS,
    *("app_dir", "slots", "name", "until_idle", "heartbeat", "ttl", "deadline", "kill_grace", "grace", "poll"),
    *("aging", "on_lease_lost", "preload", "no_preload", "start_method"),
)
SWITCHES = ("until_idle", "preload", "no_preload")


@dataclass(frozen=True)
class Config:
    """What holds for one call of the command line. `run`: keywords of `Supervisor`, and `handlers`, `app_dir`.

    `device` and `device_env` in it: what [devices.NAME] and, over these, [run] say. `limits`: keywords of `set_limit`,
    by name."""

    url: str = field(repr=False)  # it may hold a password
    schema: str | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


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
        limits=stored.get("limits", {}),
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
    _check_limits(file, stored.get("limits", {}))
    run = _checked_run(file, stored.get("run", {}))
    return {**stored, "run": {**run, **_devices(file, stored.get("devices", {}), run)}}


def _devices(file: str, tables: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The keys `device` and `device_env` of `run`, with what [devices.NAME] says of other devices."""
    for name, table in tables.items():
        place = f"[devices.{one_line(name)}]"
        if not isinstance(table, dict):
            raise InvalidJob(f"{file}: {one_line(name)} in [devices] must be a table: write {place} above its keys")
        if not table:
            raise InvalidJob(f'{file}: {place} is empty: write units = ["0", "1"] below it')
        for key in table:
            if key not in DEVICE_KEYS:
                raise InvalidJob(f"{file}: unknown key {shown(key)} in {place}{nearest(key, DEVICE_KEYS)}")
    units = {name: table["units"] for name, table in tables.items() if "units" in table}
    variables = {name: table["env"] for name, table in tables.items() if "env" in table}
    try:
        merged: dict[str, Any] = {
            "device": {**units_by_name(units), **units_by_name(run.get("device", ()))},
            "device_env": {**variables_by_name(variables), **variables_by_name(run.get("device_env", ()))},
        }
    except InvalidJob as error:
        raise InvalidJob(f"{file}: {error}") from None
    return {key: value for key, value in merged.items() if value}


def _check_limits(file: str, limits: dict[str, Any]) -> None:
    for name, said in limits.items():
        where = f"{file}: [limits.{one_line(name)}]"
        if not isinstance(said, dict):
            raise InvalidJob(f"{where} must be a table, such as [limits.gpu] with resource = 1 below it")
        for key in said:
            if key not in KEYWORDS:
                raise InvalidJob(f"{where}: unknown key {shown(key)}{nearest(key, KEYWORDS)}")
        try:
            check_limit(name, **said)
        except InvalidJob as error:
            raise InvalidJob(f"{where}: {error}") from None


def _checked_run(file: str, run: dict[str, Any]) -> dict[str, Any]:
    for key in run:
        if key not in RUN_KEYS:
            raise InvalidJob(f"{file}: unknown key {shown(key)} in [run]{nearest(key, RUN_KEYS)}")
    for key in SWITCHES:
        if not isinstance(run.get(key, False), bool):
            raise InvalidJob(f"{file}: {key} in [run] must be true or false")
    if not isinstance(run.get("app_dir", ""), str):
        raise InvalidJob(f"{file}: app_dir in [run] must be the text of a path")
    return {**run, **{key: _texts(file, key, run[key]) for key in LISTS if key in run}}


def _texts(file: str, key: str, value: object) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise InvalidJob(f'{file}: {key} in [run] must be text or a list of texts, such as ["a", "b"]')
    return tuple(listed)
