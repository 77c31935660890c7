"""Reads settings from a file, then the environment, then flags; the last one wins."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from cluster.settings.rocketmq_keys import read_broker_conf
from cluster.settings.settings import Sections, Settings, SettingsError, unknown_key

ENVIRONMENT_PREFIX = "DLEDGER_"
FILE_SIZE_MAX = 1 << 20
"""A settings file is a page or two; a larger file is the wrong one."""


def read(
    sections: Sections,
    file: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    flags: Iterable[str] = (),
) -> Settings:
    """Collect settings from all three places.

    Args:
        sections: name → dataclass.
        file: TOML, or broker.conf when its name ends in .conf or .properties.
        environment: usually `os.environ`.
        flags: "section.key=value".

    Raises:
        SettingsError: unknown key, unreadable value, or a file that is no settings file.
    """
    settings = Settings(sections)
    if file is not None:
        _read_file(settings, file)
    for name, value in sorted(environment.items()):
        _read_variable(settings, name, value)
    for flag in flags:
        name, equals, value = flag.partition("=")
        section, _, key = name.strip().partition(".")
        if not equals or not key:
            raise SettingsError(
                f"{flag!r} is not of the form section.key=value; dledger config show lists them"
            )
        settings.add(section, key, value, "flag")
    return settings


def _read_variable(settings: Settings, name: str, value: str) -> None:
    if not name.startswith(ENVIRONMENT_PREFIX):
        return
    rest = name.removeprefix(ENVIRONMENT_PREFIX).lower()
    for section in settings.sections:
        if rest.startswith(f"{section}_"):
            settings.add(section, rest.removeprefix(f"{section}_"), value, f"environment {name}")


def _read_file(settings: Settings, file: Path) -> None:
    try:
        if file.stat().st_size > FILE_SIZE_MAX:
            raise SettingsError(
                f"{file} has over {FILE_SIZE_MAX} bytes and is no settings file; name another one"
            )
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"{file} cannot be read: {error.strerror}; check its name and rights"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{file} is not UTF-8 text and no settings file; name another one"
        ) from error
    if file.suffix in {".conf", ".properties"}:
        read_broker_conf(settings, text, str(file))
        return
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not valid TOML: {error}; correct that line") from error
    for section, values in tables.items():
        if not isinstance(values, dict):
            known = [*settings.known(), *settings.sections]
            raise SettingsError(unknown_key(section, known, f"file {file}"))
        for key, value in values.items():
            settings.add(section, key, value, f"file {file}")
