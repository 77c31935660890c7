"""`dledger config check|show|get`: the meaning of a settings file, before a node starts with it.

`dledger config set|unset|live`: settings that change in running nodes, by their groups' logs.
"""

from __future__ import annotations

import asyncio
import difflib
import os
from pathlib import Path

import click

from cluster.client.admin.live_settings import live_settings, set_live
from cluster.commands.connecting import Reach, address_option, broker_option, connected
from cluster.commands.errors import NOT_THERE, USAGE, CommandError
from cluster.commands.output import emit, emit_done, output_option
from cluster.commands.registry import WholeHelpGroup
from cluster.core.live_settings import LIVE
from cluster.errors import ClusterError
from cluster.settings.node import NodeSettings, build_node, read_node
from cluster.settings.settings import Settings, SettingsError, is_secret

SECTION = "broker."


@click.group(cls=WholeHelpGroup)
def config() -> None:
    """Check and show settings and their origin."""


@config.command("check")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@output_option
def check(file: Path, output: str) -> None:
    """Read FILE (TOML or broker.conf) as a node would; exit code 2 with the mistake.

    A file with secrets that others may read is good all the same, and this is said.
    """
    settings = read_node(file, os.environ)
    node = build_node(settings)
    check_accounts(node.broker.acl_file)
    said = [one for one in (said_of_secrets(file, settings), *said_of_files(node)) if one]
    emit_done([{"file": str(file), "good": True, "notes": said}], output, f"{file}: good")
    for sentence in said:
        click.echo(sentence, err=True)


def check_accounts(file: str | None) -> None:
    """Read a node's accounts as it would. Raises SettingsError."""
    if not file:
        return
    from cluster.core.access.accounts import AccountsError
    from cluster.security.access_file import Access

    try:
        Access(Path(file))
    except (AccountsError, OSError) as error:
        raise SettingsError(f"broker.acl_file {file}: {error}") from None


def said_of_files(node: NodeSettings) -> list[str]:
    """A sentence for each file of secrets that the settings name and others may read."""
    from cluster.home import open_to_others

    named = (node.broker.acl_file, node.broker.tls_key, node.admin.account_file)
    return [open_to_others(Path(file)) for file in named if file and Path(file).exists()]


def said_of_secrets(file: Path, settings: Settings) -> str:
    """A sentence when the file itself holds a secret and others may read it, "" when not."""
    from cluster.home import open_to_others

    held = any(
        is_secret(key) and given.value is not None and given.origin == f"file {file}"
        for values in settings.given.values()
        for key, given in values.items()
    )
    return open_to_others(file) if held else ""


@config.command("show")
@click.argument(
    "file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False
)
@click.option("--set", "flags", multiple=True, metavar="SECTION.KEY=VALUE", help="As a flag.")
@click.option("--origin", is_flag=True, help="Only what is not at its default.")
@output_option
def show(file: Path | None, flags: tuple[str, ...], origin: bool, output: str) -> None:
    """Every setting, its value, and its origin: default, file, environment or flag."""
    rows = read_node(file, os.environ, flags).shown()
    if origin:
        rows = [row for row in rows if row["origin"] != "default"]
    emit(rows, output, ("key", "value", "origin"))


@config.command("get")
@click.argument("key")
@click.argument(
    "file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False
)
@output_option
def get(key: str, file: Path | None, output: str) -> None:
    """The value of KEY (SECTION.NAME) with its origin, as a node with FILE would have it.

    What `dledger config live` shows counts before it in running nodes.
    """
    rows = [row for row in read_node(file, os.environ).shown() if row["key"] == key]
    if not rows:
        raise _unknown(key)
    emit(rows, output, ("key", "value", "origin"))


def _unknown(key: str) -> CommandError:
    known = [str(row["key"]) for row in read_node(None, {}).rows()]
    near = difflib.get_close_matches(key, known, 3)
    advice = f"perhaps {' or '.join(near)}" if near else "dledger config show lists all"
    return CommandError(f"there is no setting {key}; {advice}", NOT_THERE)


@config.command("live")
@address_option
@output_option
def live(address: Reach, output: str) -> None:
    """Settings that were set in running nodes; they count before those of files."""

    async def work() -> dict[str, dict[str, str]]:
        async with connected(address) as client:
            return await live_settings(client.instance)

    found = asyncio.run(work())
    rows = [
        {"broker": broker, "key": f"{SECTION}{name}", "value": text}
        for broker, values in found.items()
        for name, text in sorted(values.items())
    ]
    emit(rows, output, ("broker", "key", "value"))


@config.command("set")
@click.argument("key")
@click.argument("value")
@broker_option
@address_option
@output_option
def set_(key: str, value: str, broker: str | None, address: Reach, output: str) -> None:
    """Set KEY, a setting of the section broker, on every running node, at once.

    It stands in the log of each broker name: nodes that start again, or join, have it, too, and it
    counts before their files. `dledger config unset KEY` ends that. Settings that a node reads at
    its start only are refused.
    """
    if not value:
        raise CommandError(f"the value of {key} is empty; give one, or dledger config unset", USAGE)
    _set(key, value, broker, address, output)


@config.command("unset")
@click.argument("key")
@broker_option
@address_option
@output_option
def unset(key: str, broker: str | None, address: Reach, output: str) -> None:
    """Take KEY out of the log of each broker name: each node's own value counts again, at once."""
    _set(key, "", broker, address, output)


def _set(key: str, value: str, broker: str | None, address: Reach, output: str) -> None:
    name = key.removeprefix(SECTION)
    if name not in LIVE:
        keys = {str(row["key"]) for row in read_node(None, {}).rows()}
        full = key if key in keys else f"{SECTION}{name}"
        if full not in keys:
            raise _unknown(key)
        raise CommandError(
            f"{full} is read when a node starts; write it into the settings file of every node and "
            "start them again, one by one (live are: " + ", ".join(sorted(LIVE)) + ")",
            USAGE,
        )
    done: list[str] = []

    async def work() -> None:
        async with connected(address) as client:
            await set_live(client.instance, name, value, broker=broker, done=done)

    try:
        asyncio.run(work())
    except ClusterError:
        if done:
            click.echo(
                f"done on {', '.join(done)}; not on the others, ask again for them", err=True
            )
        raise
    rows = [{"broker": one, "key": f"{SECTION}{name}", "value": value or None} for one in done]
    emit(rows, output, ("broker", "key", "value"))
