"""`dledger tls init|show|renew`: a cluster's own certificates, without another tool."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cluster.commands.errors import USAGE, CommandError
from cluster.commands.output import emit, emit_done, output_option
from cluster.commands.registry import WholeHelpGroup
from commitlog.address import without_brackets

if TYPE_CHECKING:
    from cluster.security.certificates import Subject

RENEWED_DAYS = 30
NAME_CHARS_MAX = 56  # a certificate's common name has 64, and a client's begins with client-
HOST_CHARS_MAX = 253
_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*\.?")
folder_argument = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
days_option = click.option(
    "--days",
    type=click.IntRange(1, 825),
    default=397,
    show_default=True,
    help="So long are certificates good; the authorities 3650 days.",
)


@click.group(cls=WholeHelpGroup)
def tls() -> None:
    """Make and renew the certificates of a cluster."""


@tls.command()
@folder_argument
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NAME=HOST[,HOST]",
    help="A node, and names and addresses by which clients reach it; repeatable.",
)
@click.option("--client", "clients", multiple=True, metavar="NAME", help="A client; repeatable.")
@days_option
@output_option
def init(
    folder: Path, nodes: tuple[str, ...], clients: tuple[str, ...], days: int, output: str
) -> None:
    """Make an authority in FOLDER, and a certificate for each node and client.

    Said again with other names, it adds them. Give each machine authority.pem, its node's two files
    and callers.pem, and to nobody the keys of the authorities.
    """
    from cluster.security.certificates import CLIENT_PREFIX, Subject, make_all

    wanted = [_node(text) for text in nodes]
    wanted += [Subject(CLIENT_PREFIX + _checked(name), (), is_client=True) for name in clients]
    if not wanted:
        raise CommandError("no certificate is asked for; say --node NAME=HOST", USAGE)
    names = [one.name for one in wanted]
    if len(set(names)) < len(names):
        raise CommandError("a name is given twice; give each node and client its own", USAGE)
    _emit_written(make_all(folder, wanted, days), output)
    if nodes and output == "table":
        click.echo(
            f"a node uses its own with: dledger node init FILE --certificates {folder}, or these "
            f"settings of {names[0]}:"
        )
        _echo_settings(folder, names[0])


@tls.command()
@folder_argument
@output_option
def show(folder: Path, output: str) -> None:
    """Show the certificates of FOLDER, and when they end."""
    from cluster.security.certificates import all_of

    now = datetime.datetime.now(datetime.UTC)
    rows: list[dict[str, Any]] = [
        {
            "file": one.file,
            "ends": one.ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "days_left": max(0, (one.ends - now).days),
            "signed_by": one.signed_by,
            "names": list(one.names),
        }
        for one in all_of(folder)
    ]
    emit(rows, output)


@tls.command()
@folder_argument
@click.option(
    "--within",
    type=click.IntRange(0),
    default=RENEWED_DAYS,
    show_default=True,
    help="Those that end within so many days.",
)
@click.option("--all", "every", is_flag=True, help="Each of them, whenever it ends.")
@days_option
@output_option
def renew(folder: Path, within: int, every: bool, days: int, output: str) -> None:
    """Make certificates anew that end soon, with the same names and other keys.

    Copy them over the old ones on their machines: nodes and name servers read them with the next
    connection, without a restart.
    """
    from cluster.security import certificates

    now = datetime.datetime.now(datetime.UTC)
    last = datetime.datetime.max.replace(tzinfo=datetime.UTC)
    certificates.all_of(folder)  # a folder without any is refused
    made = certificates.renew(folder, last if every else now + datetime.timedelta(within), days)
    _emit_written(made, output)
    if not made and output == "table":
        click.echo(f"none of {folder} ends within {within} days; dledger tls renew --all makes all")


def _emit_written(paths: Iterable[Path], output: str) -> None:
    rows = [{"written": str(path)} for path in paths]
    emit_done(rows, output, *(f"wrote {row['written']}" for row in rows))


def _node(text: str) -> Subject:
    from cluster.security.certificates import CLIENT_PREFIX, Subject

    name, equals, hosts = text.partition("=")
    found = tuple(host.strip() for host in hosts.split(",") if host.strip())
    if not equals or not found or not all(map(_is_host, found)):
        raise CommandError(
            f"--node {text!r} is not of the form NAME=HOST[,HOST]; give it as "
            "n0=10.0.0.1,broker.example",
            USAGE,
        )
    if name.startswith(CLIENT_PREFIX):
        raise CommandError(
            f"{name!r} is the name of a client's file; give the node another name", USAGE
        )
    return Subject(_checked(name), found)


def _is_host(text: str) -> bool:
    """Is it an address, or a name as certificates have it (in ASCII, as xn--…)?"""
    try:
        ipaddress.ip_address(without_brackets(text))
    except ValueError:
        return len(text) <= HOST_CHARS_MAX and _HOST.fullmatch(text) is not None
    return True


def _checked(name: str) -> str:
    """The name, if it can be a file's and a node's."""
    from cluster.security.certificates import AUTHORITY, CALLERS, CLIENTS

    known = {AUTHORITY, CALLERS, CLIENTS}
    good = name.replace("-", "").replace("_", "").replace(".", "").isalnum() and name.isascii()
    if not good or name in known or name.startswith(".") or len(name) > NAME_CHARS_MAX:
        raise CommandError(
            f"{name!r} can be the name of no node or client; use at most {NAME_CHARS_MAX} letters, "
            "digits, - and _",
            USAGE,
        )
    return name


def _echo_settings(folder: Path, node: str) -> None:
    from cluster.security.certificates import node_settings

    for key, value in node_settings(folder, node).items():
        click.echo(f"  --set {key}={value}")
