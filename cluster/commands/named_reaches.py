"""Profiles: named ways to reach clusters, for all commands of a user.

    $DLEDGER_HOME/profiles.json, or ~/.dledger/profiles.json, readable by its owner only
    {"version": 1, "in_use": "prod",
     "profiles": {"prod": {"address": "10.0.0.1:9876", "account": "/etc/dledger/prod.yml",
                           "tls": "/etc/dledger/ca.pem", "tls_any_host": false}}}

Paths are absolute; secrets stay in the files that they name. The file is replaced as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cluster.commands.errors import NOT_THERE, USAGE, CommandError
from cluster.home import home_folder, write_private

VERSION = 1
NAME_LENGTH_MAX = 60


@dataclass(frozen=True, slots=True)
class NamedReach:
    """One profile: address as of `-a`, files as of `--account` and `--tls`; "" for none."""

    address: str
    account: str = ""
    tls: str = ""
    tls_any_host: bool = False


@dataclass(frozen=True, slots=True)
class NamedReaches:
    """All of them; `in_use`: the one that commands take without a word, "" for none."""

    profiles: Mapping[str, NamedReach] = field(default_factory=dict)
    in_use: str = ""

    def get(self, name: str) -> NamedReach:
        """Raises CommandError where there is none of this name."""
        try:
            return self.profiles[name]
        except KeyError:
            raise CommandError(
                f"there is no profile {name}; dledger profile list shows those that there are",
                NOT_THERE,
            ) from None

    def put(self, name: str, profile: NamedReach) -> NamedReaches:
        """With one more, or another of this name."""
        return replace(self, profiles={**self.profiles, name: profile})

    def without(self, name: str) -> NamedReaches:
        """Without one; if it was in use, none is. Raises CommandError where there is none."""
        self.get(name)
        rest = {other: found for other, found in self.profiles.items() if other != name}
        return NamedReaches(rest, "" if self.in_use == name else self.in_use)


def profiles_file() -> Path:
    """Where this user's profiles are."""
    return home_folder() / "profiles.json"


def load_profiles() -> NamedReaches:
    """The profiles of this user, none without a file. CommandError for a file of another form."""
    path = profiles_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return NamedReaches()
    except OSError as error:
        raise CommandError(
            f"{path} cannot be read ({error.strerror}); run this as its owner, or set DLEDGER_HOME"
            " to a folder of yours"
        ) from error
    try:
        return _read(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(
            f"{path} has no profiles of this release ({error}); correct it, or delete it and make"
            " them again with dledger profile create"
        ) from error


def _read(found: Any) -> NamedReaches:
    if found["version"] > VERSION:
        raise CommandError(
            f"{profiles_file()} is of version {found['version']}, and this release knows {VERSION};"
            " use the release that wrote it, or set DLEDGER_HOME to another folder"
        )
    if found["version"] != VERSION:
        raise ValueError(f"version {found['version']}")
    profiles = {}
    for name, row in found["profiles"].items():
        profile = profiles[str(name)] = NamedReach(**row)
        texts = (profile.address, profile.account, profile.tls)
        if not all(isinstance(text, str) for text in texts) or not isinstance(
            profile.tls_any_host, bool
        ):
            raise TypeError(f"{name} has values of other types")
    in_use = str(found["in_use"])
    if in_use and in_use not in profiles:
        raise ValueError(f"{in_use!r} is in use and is not there")
    return NamedReaches(profiles, in_use)


def save_profiles(found: NamedReaches) -> None:
    """Replace the file. Raises CommandError where it cannot be written."""
    path = profiles_file()
    rows = {name: asdict(profile) for name, profile in sorted(found.profiles.items())}
    body = {"version": VERSION, "in_use": found.in_use, "profiles": rows}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, json.dumps(body, indent=2) + "\n")
    except OSError as error:
        raise CommandError(
            f"{path} cannot be written ({error.strerror}); free space, or set DLEDGER_HOME to a"
            " folder of yours"
        ) from error


def check_name(name: str) -> None:
    """Raises CommandError for a name that is empty, long, or hard to type."""
    if not (0 < len(name) <= NAME_LENGTH_MAX and all(c.isalnum() or c in "-_." for c in name)):
        raise CommandError(
            f"{name!r} is no name of a profile; use up to {NAME_LENGTH_MAX} letters, digits,"
            " '-', '_' and '.'",
            USAGE,
        )
