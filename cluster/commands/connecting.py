"""How a command reaches a cluster: address, account, TLS; options of every command that does.

    -a HOST:PORT          $NAMESRV_ADDR, or the last local cluster; name servers, or any node
    --account FILE        $DLEDGER_ACCOUNT         accessKey and secretKey, as RocketMQ's tools.yml
    --tls FILE | system   $DLEDGER_TLS             whose certificates are believed
    --tls-any-host        $DLEDGER_TLS_ANY_HOST    … whatever host they name
    --profile NAME        $DLEDGER_PROFILE         all of them by one name (dledger profile)

What is given counts before what a profile has. A profile of the environment, or one that is in use,
counts only for commands that are told no address, by -a or (for one in use) by $NAMESRV_ADDR: an
account is for the cluster that it was made for.

A secret is never an argument: arguments are seen by everybody on the machine.
"""

from __future__ import annotations

import functools
import getpass
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

import cluster
from cluster.client import Client, ClientConfig
from cluster.client.config import Tls, read_account
from cluster.client.discovery import ENVIRONMENT_ADDRESS
from cluster.client.routing.on_behalf import on_behalf
from cluster.commands.errors import NOT_THERE, USAGE, CommandError, exit_code_of
from cluster.commands.named_reaches import NamedReach, load_profiles
from cluster.errors import ClusterError, NotDone, NotTrusted, TopicNotFound, Unauthorized
from commitlog.advice import BETWEEN

SYSTEM = "system"
_VARIABLES = {
    "account": "DLEDGER_ACCOUNT",
    "tls": "DLEDGER_TLS",
    "tls_any_host": "DLEDGER_TLS_ANY_HOST",
}
PROFILE_VARIABLE = "DLEDGER_PROFILE"

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

    @staticmethod
    def of(profile: NamedReach) -> Reach:
        """The reach that has this name."""
        account = Path(profile.account) if profile.account else None
        return Reach(profile.address, account, profile.tls or None, profile.tls_any_host)

    def filled(self, profile: NamedReach) -> Reach:
        """Fill the parts that are not given from a profile; TLS is taken as a whole."""
        kept = Reach.of(profile)
        tls, any_host = (self.tls, self.any_host) if self.tls else (kept.tls, kept.any_host)
        return Reach(self.address or kept.address, self.account or kept.account, tls, any_host)

    def advice(self) -> str:
        """The next step of a user without an answer."""
        if self.tls is not None:
            return "check the address, and that TLS is spoken there; without --tls it is not"
        if self.address is not None:
            return "check the address, and that a node or name server listens there"
        return "dledger status shows which nodes run, dledger up starts them"


def address_option(function: Function) -> Function:
    """The options; `function` gets one argument for them, `address`, for `connected`.

    Parts that are not given come from a profile.
    """
    return _with_options(function, fills=True)


def reach_options(function: Function) -> Function:
    """As `address_option`, of options alone: for commands that keep profiles."""
    return _with_options(function, fills=False)


def _with_options(function: Function, *, fills: bool) -> Function:
    @functools.wraps(function)
    def gathered(
        *args: Any,
        address: str | None,
        account: Path | None,
        tls: str | None,
        tls_any_host: bool,
        profile_name: str | None = None,
        **rest: Any,
    ) -> Any:
        reach = Reach(address, account, tls, tls_any_host)
        reach = reach if fills else _without_environment(reach)
        return function(*args, address=_filled(reach, profile_name) if fills else reach, **rest)

    decorated: Any = gathered
    for option in _OPTIONS if fills else _OPTIONS[1:]:
        decorated = option(decorated)
    found: Function = decorated
    return found


def _without_environment(reach: Reach) -> Reach:
    """The parts that options gave. Says which variables of the shell are set beside them."""
    source = click.get_current_context().get_parameter_source
    set_here = [name for name in _VARIABLES if source(name) is ParameterSource.ENVIRONMENT]
    if set_here:
        variables = " and ".join(f"${_VARIABLES[name]}" for name in set_here)
        click.echo(
            f"not kept: {variables} of this shell; commands here take it before the profile's, "
            "and an option keeps it",
            err=True,
        )
    return Reach(
        reach.address,
        None if "account" in set_here else reach.account,
        None if "tls" in set_here else reach.tls,
        reach.any_host and "tls_any_host" not in set_here,
    )


def _filled(given: Reach, name: str | None) -> Reach:
    """Raises CommandError for a profile that is not there, or cannot be read."""
    if name is not None:
        return given.filled(load_profiles().get(name))
    if (named := os.environ.get(PROFILE_VARIABLE)) and given.address is None:
        return given.filled(load_profiles().get(named))
    if given.address is not None or os.environ.get(ENVIRONMENT_ADDRESS):
        return given
    found = load_profiles()
    return given.filled(found.get(found.in_use)) if found.in_use else given


def _profile_names(_context: Any, _parameter: Any, begun: str) -> list[str]:
    """For completion in a shell."""
    return [name for name in sorted(load_profiles().profiles) if name.startswith(begun)]


_OPTIONS = (
    click.option(
        "--profile",
        "profile_name",
        metavar="NAME",
        shell_complete=_profile_names,
        help="Address, account and TLS as kept by dledger profile; without it $DLEDGER_PROFILE.",
    ),
    click.option(
        "--tls-any-host",
        is_flag=True,
        envvar=_VARIABLES["tls_any_host"],
        help="A believed certificate may name any host.",
    ),
    click.option(
        "--tls",
        metavar="FILE|system",
        envvar=_VARIABLES["tls"],
        help="Speak TLS, and believe the certificates of this PEM file (or the system's).",
    ),
    click.option(
        "--account",
        metavar="FILE",
        envvar=_VARIABLES["account"],
        type=click.Path(path_type=Path),
        help="Sign as this account: accessKey and secretKey, like RocketMQ's tools.yml.",
    ),
    click.option(
        "-a",
        "--address",
        metavar="HOST:PORT[;HOST:PORT]",
        help="Name servers or any node; without it $NAMESRV_ADDR, the profile in use, or the last"
        " local cluster.",
    ),
)


def user_here() -> str:
    """The user of this machine, for the audit log, in the ASCII that headers take."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's number without a name
        name = f"uid {os.getuid()}"
    return ascii(f"{name}@{socket.gethostname()}")[1:-1]


@asynccontextmanager
async def connected(address: Reach | str | None) -> AsyncIterator[Client]:
    """A client, with errors that say which command to try."""
    reach = address if isinstance(address, Reach) else Reach(address)
    try:
        with on_behalf("cli", user_here()):
            async with cluster.connect(reach.address, reach.config()) as client:
                yield client
    except TopicNotFound as error:
        what, _, given = error.happened.partition(BETWEEN)
        advice = (
            given if "dledger topic describe" in given else "dledger topic list shows those that do"
        )
        raise CommandError(f"{what}; {advice}", NOT_THERE) from error
    except Unauthorized as error:
        if reach.account:
            raise
        advice = "--account FILE gives the account to sign with"
        raise CommandError(f"{error.happened}; {advice}", exit_code_of(error)) from error
    except NotTrusted as error:
        if "dledger tls renew" in error.happened:
            raise
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
