"""`dledger profile create|list|show|alter|use|delete`: named ways to reach clusters."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from cluster.client.config import ClientConfigError
from cluster.client.discovery import resolve
from cluster.commands.confirming import confirm_deletion, yes_option
from cluster.commands.connecting import Reach, reach_options
from cluster.commands.errors import USAGE, CommandError
from cluster.commands.named_reaches import (
    NamedReach,
    NamedReaches,
    check_name,
    load_profiles,
    save_profiles,
)
from cluster.commands.output import emit, emit_done, output_option
from cluster.commands.registry import WholeHelpGroup

COLUMNS = ("in_use", "profile", "address", "account", "tls", "tls_any_host")


@click.group(cls=WholeHelpGroup)
def profile() -> None:
    """Name ways to reach clusters: address, account and TLS under one word."""


@profile.command()
@click.argument("name")
@reach_options
@click.option("--use", is_flag=True, help="Let commands take it from now on.")
@output_option
def create(name: str, address: Reach, use: bool, output: str) -> None:
    """Keep -a, --account, --tls and --tls-any-host under NAME.

    Commands take it with --profile NAME or $DLEDGER_PROFILE, and without a word after
    `dledger profile use NAME`.
    """
    check_name(name)
    found = load_profiles()
    if name in found.profiles:
        raise CommandError(
            f"there is a profile {name} already; dledger profile alter {name} changes it", USAGE
        )
    if address.address is None:
        raise CommandError("a profile needs an address; give -a HOST:PORT", USAGE)
    changed = found.put(name, _kept(NamedReach(""), address))
    changed = replace(changed, in_use=name) if use else changed
    save_profiles(changed)
    following = ", and in use" if use else f"; dledger profile use {name}"
    emit_done([_row(changed, name)], output, f"{name} is kept{following}")


@profile.command()
@click.argument("name")
@reach_options
@output_option
def alter(name: str, address: Reach, output: str) -> None:
    """Change the given parts of NAME; the rest stays."""
    found = load_profiles()
    before = found.get(name)
    after = _kept(before, address)
    if after == before:
        raise CommandError(f"{name} is as it was; give -a, --account or --tls", USAGE)
    changed = found.put(name, after)
    save_profiles(changed)
    emit_done([_row(changed, name)], output, f"{name} is changed")


@profile.command("list")
@output_option
def list_(output: str) -> None:
    """Print all profiles; "*" marks the one that is in use."""
    found = load_profiles()
    emit([_row(found, name) for name in sorted(found.profiles)], output, COLUMNS)


@profile.command()
@click.argument("name", required=False)
@output_option
def show(name: str | None, output: str) -> None:
    """Print NAME, or the profile that is in use."""
    found = load_profiles()
    if name is None and not found.in_use:
        raise CommandError("no profile is in use; dledger profile list shows all", USAGE)
    name = found.in_use if name is None else name
    found.get(name)
    emit([_row(found, name)], output, COLUMNS)


@profile.command()
@click.argument("name", required=False)
@click.option("--none", "none", is_flag=True, help="None any more: the local cluster again.")
@output_option
def use(name: str | None, none: bool, output: str) -> None:
    """Let commands take NAME that are told no address."""
    if (name is None) is not none:
        raise CommandError("one profile is needed; name it, or give --none", USAGE)
    found = load_profiles()
    if name is not None:
        found.get(name)
    changed = replace(found, in_use=name or "")
    save_profiles(changed)
    rows = [_row(changed, name)] if name else []
    emit_done(rows, output, f"{name} is in use" if name else "no profile is in use")


@profile.command()
@click.argument("name")
@yes_option
@output_option
def delete(name: str, yes: bool, output: str) -> None:
    """Forget NAME; the files that it names stay."""
    rest = load_profiles().without(name)
    confirm_deletion(name, f"forget the profile {name}?", yes)
    save_profiles(rest)
    emit_done([{"profile": name, "deleted": True}], output, f"{name} is forgotten")


def _kept(before: NamedReach, given: Reach) -> NamedReach:
    """The profile with the given parts. Raises CommandError for files that cannot be used."""
    after = replace(
        before,
        address=given.address or before.address,
        account=str(given.account.absolute()) if given.account else before.account,
        tls=before.tls if given.tls is None else _certificates(given.tls),
        tls_any_host=given.any_host or (before.tls_any_host and given.tls is None),
    )
    try:
        resolve(after.address)
        Reach.of(after).config()
    except ClientConfigError as error:
        raise CommandError(str(error), USAGE) from error
    return after


def _certificates(tls: str) -> str:
    return tls if tls == "system" else str(Path(tls).absolute())


def _row(found: NamedReaches, name: str) -> dict[str, Any]:
    row = asdict(found.profiles[name])
    return {"profile": name, "in_use": "*" if name == found.in_use else "", **row}
