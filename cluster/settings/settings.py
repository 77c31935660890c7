"""Settings from a file, the environment and flags into dataclasses, with each value's origin.

    flag  >  environment  >  file  >  default

    file          TOML: [section] key = value; or broker.conf: key=value (`rocketmq_keys.py`)
    environment   DLEDGER_<SECTION>_<KEY>, e.g. DLEDGER_RAFT_HEARTBEAT_INTERVAL
    flag          section.key=value

A section is a frozen dataclass: its annotations say how text is read, its `#:` comments are the
manual (`docs.py`) and its `validate()` names both values of an impossible relation.
Nothing is guessed: an unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_type_hints

from cluster.settings.values import convert
from commitlog.advice import Advised

Section = TypeVar("Section")
Sections = Mapping[str, type]


class SettingsError(Advised):
    """A setting is unknown, unreadable or impossible; the process does not start."""

    advice = "correct the setting"
    retriable = False


@dataclass(frozen=True, slots=True)
class Given:
    """A value and its origin: "default", "file x.toml", "environment X", "flag"."""

    value: object
    origin: str


@functools.cache
def _hints(kind: type) -> Mapping[str, Any]:
    """The types of a section's fields; kept, since each key needs them and a search takes 5 ms."""
    return get_type_hints(kind)


@dataclass(slots=True)
class Settings:
    """Given values by section and key; everything else is at its default."""

    sections: Sections
    given: dict[str, dict[str, Given]] = field(default_factory=dict)

    def add(self, section: str, key: str, value: object, origin: str) -> None:
        """Take a value; the last one wins. Raises SettingsError for an unknown name or bad text."""
        hint = self._hint(section, key, origin)
        try:
            converted = convert(value, hint)
        except ValueError as error:
            raise SettingsError(f"{section}.{key} ({origin}): {error}") from error
        self.given.setdefault(section, {})[key] = Given(converted, origin)

    def _hint(self, section: str, key: str, origin: str) -> Any:
        known = self.known()
        if f"{section}.{key}" not in known:
            raise SettingsError(unknown_key(f"{section}.{key}", known, origin))
        return _hints(self.sections[section])[key]

    def known(self) -> list[str]:
        """Every "section.key" there is."""
        return [
            f"{name}.{item.name}"
            for name, kind in self.sections.items()
            for item in dataclasses.fields(kind)
            if item.init
        ]

    def build(self, section: str, kind: type[Section], **required: object) -> Section:
        """Make one section's object; `required` has the fields that only the program knows.

        Raises SettingsError when a required key is missing or `validate()` refuses.
        """
        values = {key: given.value for key, given in self.given.get(section, {}).items()}
        values = required | values
        missing = [
            item.name
            for item in dataclasses.fields(kind)  # type: ignore[arg-type]
            if item.init and is_required(item) and item.name not in values
        ]
        if missing:
            raise SettingsError(
                f"{section}.{missing[0]} is required and has no value; set it in the file, the "
                "environment or by --set"
            )
        built = kind(**values)
        check(section, built)
        return built

    def rows(self) -> list[dict[str, object]]:
        """For `config show`: every key with its value and origin."""
        rows = []
        for name, kind in self.sections.items():
            for item in dataclasses.fields(kind):
                if not item.init:
                    continue
                given = self.given.get(name, {}).get(item.name)
                value = given.value if given else default_of(item)
                origin = given.origin if given else "default"
                rows.append({"key": f"{name}.{item.name}", "value": value, "origin": origin})
        return rows

    def shown(self) -> list[dict[str, object]]:
        """`rows` for people: the value of a secret is ***."""
        return [
            row | {"value": "***"} if is_secret(str(row["key"])) and row["value"] else row
            for row in self.rows()
        ]


def is_secret(name: str) -> bool:
    """True if the name of a setting or variable looks like a secret's; so new ones count, too."""
    return any(word in name.lower() for word in ("secret", "password", "token"))


def is_required(item: dataclasses.Field[Any]) -> bool:
    """Whether a field has no default."""
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def default_of(item: dataclasses.Field[Any]) -> object:
    """A field's default value; None for a required one."""
    if item.default is not dataclasses.MISSING:
        return item.default
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return None


def check(section: str, built: object) -> None:
    """Run the object's own `validate`, if it has one, and say in which section it failed."""
    validate = getattr(built, "validate", None)
    if validate is None:
        return
    try:
        validate()
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(f"[{section}] {error}") from error


def unknown_key(name: str, known: Iterable[str], origin: str) -> str:
    """The sentence for a key that does not exist; names the nearest one, compared without case."""
    by_lower = {key.lower(): key for key in known}
    tails = {key.rpartition(".")[2]: full for key, full in by_lower.items()}
    near = difflib.get_close_matches(name.lower(), by_lower, 1, 0.6)
    if near:
        return f"unknown setting {name} ({origin}); did you mean {by_lower[near[0]]}?"
    near = difflib.get_close_matches(name.lower().rpartition(".")[2], tails, 1, 0.6)
    if near:
        return f"unknown setting {name} ({origin}); did you mean {tails[near[0]]}?"
    return f"unknown setting {name} ({origin}); dledger config show lists all of them"
