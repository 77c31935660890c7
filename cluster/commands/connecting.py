"""How a command reaches a cluster: address, account, TLS; options of every command that does.

    -a HOST:PORT          $NAMESRV_ADDR, or the last local cluster; name servers, or any node
    --account FILE        $DLEDGER_ACCOUNT         accessKey and secretKey, as RocketMQ's tools.yml
    --tls FILE | system   $DLEDGER_TLS             whose certificates are believed
    --tls-any-host        $DLEDGER_TLS_ANY_HOST    … whatever host they name

A secret is never an argument: arguments are seen by everybody on the machine.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

import cluster
from cluster.client import Client, ClientConfig
from cluster.client.config import Tls, read_account
from cluster.commands.errors import NOT_THERE, USAGE, CommandError, exit_code_of
from cluster.errors import ClusterError, NotDone, NotTrusted, TopicNotFound, Unauthorized
from commitlog.advice import BETWEEN

SYSTEM = "system"

Function = TypeVar("Function", bound=Callable[..., Any])

broker_option = click.option("--broker", help="Broker name, where the cluster has several.")


@dataclass(frozen=True, slots=True)
class Reach:
    """Address, account and TLS, from the options of a command."""

    address: str | None = None
    account: Path | None = None
    tls: str | None = None
    any_host: bool = False

    def config(self) -> ClientConfig:
        """Raises ClientConfigError for files that cannot be used."""
        account = read_account(self.account) if self.account else None
        if self.tls is None:
            if self.any_host:
                raise CommandError(
                    "--tls-any-host says nothing by itself; give --tls FILE or --tls system, too",
                    USAGE,
                )
            return ClientConfig(account=account)
        authority = "" if self.tls == SYSTEM else self.tls
        return ClientConfig(account=account, tls=Tls(authority, check_host=not self.any_host))

    def advice(self) -> str:
        """The next step of a user without an answer."""
        if self.tls is not None:
            return "check the address, and that TLS is spoken there; without --tls it is not"
        if self.address is not None:
            return "check the address, and that a node or name server listens there"
        return "dledger status shows which nodes run, dledger up starts them"


def address_option(function: Function) -> Function:
    """The options; `function` gets one argument for them, `address`, for `connected`."""

    @functools.wraps(function)
    def gathered(
        *args: Any,
        address: str | None,
        account: Path | None,
        tls: str | None,
        tls_any_host: bool,
        **rest: Any,
    ) -> Any:
        reach = Reach(address, account, tls, tls_any_host)
        return function(*args, address=reach, **rest)

    decorated: Any = gathered
    for option in (
        click.option(
            "--tls-any-host",
            is_flag=True,
            envvar="DLEDGER_TLS_ANY_HOST",
            help="A believed certificate may name any host.",
        ),
        click.option(
            "--tls",
            metavar="FILE|system",
            envvar="DLEDGER_TLS",
            help="Speak TLS, and believe the certificates of this PEM file (or the system's).",
        ),
        click.option(
            "--account",
            metavar="FILE",
            envvar="DLEDGER_ACCOUNT",
            type=click.Path(path_type=Path),
            help="Sign as this account: accessKey and secretKey, like RocketMQ's tools.yml.",
        ),
        click.option(
            "-a",
            "--address",
            metavar="HOST:PORT[;HOST:PORT]",
            help="Name servers or any node; without it $NAMESRV_ADDR, or the last local cluster.",
        ),
    ):
        decorated = option(decorated)
    found: Function = decorated
    return found


@asynccontextmanager
async def connected(address: Reach | str | None) -> AsyncIterator[Client]:
    """A client, with errors that say which command to try."""
    reach = address if isinstance(address, Reach) else Reach(address)
    try:
        async with cluster.connect(reach.address, reach.config()) as client:
            yield client
    except TopicNotFound as error:
        what = error.happened.partition(BETWEEN)[0]
        advice = "dledger topic list shows those that do"
        raise CommandError(f"{what}; {advice}", NOT_THERE) from error
    except Unauthorized as error:
        if reach.account:
            raise
        advice = "--account FILE gives the account to sign with"
        raise CommandError(f"{error.happened}; {advice}", exit_code_of(error)) from error
    except NotTrusted as error:
        advice = "--tls FILE says whom to believe, --tls-any-host allows other host names"
        raise CommandError(f"{error.happened}; {advice}", exit_code_of(error)) from error
    except ClusterError as error:
        says_what_to_try = isinstance(error, NotDone) and BETWEEN in error.happened
        if not error.retriable or says_what_to_try:
            raise
        advice = reach.advice()
        raise CommandError(f"{error.happened}; {advice}", exit_code_of(error)) from error


async def the_broker(client: Client, name: str | None) -> str:
    """The one that is meant. Raises CommandError when there are several and none is named."""
    if name is not None:
        return name
    names = sorted((await client.admin().status()).brokers)
    if len(names) != 1:
        raise CommandError(
            f"there are several broker names; say which with --broker: {', '.join(names)}", USAGE
        )
    return names[0]
