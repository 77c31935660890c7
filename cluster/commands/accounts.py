"""`dledger account list|create|alter|delete|import`: accounts and rights, in the cluster's log."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from cluster.client.admin.account_admin import (
    account_facts,
    change_accounts,
    import_steps,
    list_accounts,
    may_be_changed,
    random_secret,
)
from cluster.commands.confirming import confirm_deletion, yes_option
from cluster.commands.connecting import Reach, address_option, connected
from cluster.commands.errors import USAGE, CommandError
from cluster.commands.output import emit, output_option
from cluster.commands.registry import WholeHelpGroup
from cluster.core.access.quota import QUOTA_MAX
from cluster.errors import ClusterError

SECRET_FILE_BYTES_MAX = 4096
PERMISSIONS = click.Choice(["DENY", "PUB", "SUB", "PUB|SUB"])
COLUMNS = ("account", "admin", "status", "topics", "groups", "default_topic", "default_group")

Function = TypeVar("Function", bound=Callable[..., Any])


@click.group(cls=WholeHelpGroup)
def account() -> None:
    """Create, alter, list, import and delete accounts."""


def rights_options(function: Function) -> Function:
    """The rights of one account; `function` gets them as `rights`, a row's fields."""

    @functools.wraps(function)
    def gathered(*args: Any, **options: Any) -> Any:
        rights: dict[str, Any] = {}
        for name, field in _FIELDS.items():
            value = options.pop(name)
            if value in _NOT_GIVEN:
                continue
            if name in QUOTAS and value == 0:
                rights[field] = None  # takes it away
            else:
                rights[field] = list(value) if isinstance(value, tuple) else value
        if "sealed" in rights:
            rights["sealed"] = "required" if rights["sealed"] else "optional"
        return function(*args, rights=rights, **options)

    for option in (
        click.option("--admin/--no-admin", default=None, help="May it do everything?"),
        click.option("--topic", multiple=True, help="NAME=PUB|SUB, as often as needed."),
        click.option("--group", multiple=True, help="NAME=SUB; PUB: produce in its name, alone."),
        click.option("--default-topic", type=PERMISSIONS, help="Of all other topics."),
        click.option("--default-group", type=PERMISSIONS, help="Of all other groups."),
        click.option("--from", "white", help="Addresses that need no signature: 10.0.0.*"),
        click.option("--sealed/--not-sealed", default=None, help="Take sealed requests only?"),
        *(
            click.option(f"--max-{what}", type=click.IntRange(0, QUOTA_MAX), help=text)
            for what, text in (
                ("messages", "Quota of its sends, in messages a second; 0: none."),
                ("bytes", "Quota of its sends, in bytes of bodies a second; 0: none."),
                ("connections", "Quota of its connections to each node; 0: none."),
            )
        ),
        click.option("--take-over", multiple=True, help="Producer ids that it may go on with."),
    ):
        option(gathered)
    return gathered  # type: ignore[return-value]


_FIELDS = {
    "admin": "admin",
    "topic": "topicPerms",
    "group": "groupPerms",
    "default_topic": "defaultTopicPerm",
    "default_group": "defaultGroupPerm",
    "white": "whiteRemoteAddress",
    "sealed": "sealed",
    "take_over": "takeOverProducers",
    "max_messages": "maxMessages",
    "max_bytes": "maxBytes",
    "max_connections": "maxConnections",
}
QUOTAS = frozenset({"max_messages", "max_bytes", "max_connections"})
_NOT_GIVEN: tuple[Any, ...] = (None, ())

secret_option = click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Its secret key is the first line of that file; not given: one is drawn.",
)
save_option = click.option(
    "--save",
    type=click.Path(path_type=Path),
    help="Write accessKey and secretKey to a new file that only you can read, for --account.",
)


@account.command("list")
@address_option
@output_option
def list_all(address: Reach, output: str) -> None:
    """Accounts of the log and their rights; secrets are never told."""

    async def work() -> list[dict[str, Any]]:
        async with connected(address) as client:
            found = await list_accounts(client.instance)
        return [
            {"broker": broker, **account_facts(row)}
            for broker, told in found.items()
            for row in told["accounts"]
        ]

    rows = asyncio.run(work())
    several = len({row["broker"] for row in rows}) > 1
    emit(rows, output, ("broker", *COLUMNS) if several else COLUMNS)


@account.command("create")
@click.argument("name")
@rights_options
@secret_option
@save_option
@address_option
@output_option
def create(
    name: str,
    rights: dict[str, Any],
    secret_file: Path | None,
    save: Path | None,
    address: Reach,
    output: str,
) -> None:
    """Create account NAME, its access key. The first one must be an administrator (--admin).

    From then on every node asks everybody for an account. A secret that was drawn is shown once.
    """
    secret = _secret_of(secret_file)
    if save is not None:
        _save(save, name, secret)
    row = {"accessKey": name, "secretKey": secret, **rights}
    shown = {} if secret_file or save else {"secret": secret}

    def told() -> None:
        emit([{**account_facts(row), **shown}], output, (*COLUMNS, *shown))

    with _told_all_the_same(told if shown else None) as done:
        _change(address, done=done, create=[row])
    told()


@account.command("alter")
@click.argument("name")
@rights_options
@click.option("--enable/--disable", "enabled", default=None, help="May it ask at all?")
@click.option(
    "--new-secret",
    is_flag=True,
    help="Draw another secret key; the old one ends now, unless --keep-old.",
)
@click.option(
    "--keep-old", is_flag=True, help="With a new secret key: the old one counts, too, for now."
)
@click.option("--end-old", is_flag=True, help="End the old secret key that --keep-old left.")
@secret_option
@save_option
@address_option
@output_option
def alter(
    name: str,
    rights: dict[str, Any],
    enabled: bool | None,
    new_secret: bool,
    keep_old: bool,
    end_old: bool,
    secret_file: Path | None,
    save: Path | None,
    address: Reach,
    output: str,
) -> None:
    """Change the given fields of account NAME; --topic and --group replace all that it had.

    For another secret while its programs go on: --new-secret --keep-old, give each program the new
    one, then --end-old. Both count meanwhile.
    """
    row = {"accessKey": name, **rights}
    if enabled is not None:
        row["status"] = "enable" if enabled else "disable"
    if new_secret or secret_file:
        row["secretKey"] = _secret_of(secret_file)
    row |= _old_secret(keep_old, end_old, has_new="secretKey" in row)
    if len(row) == 1:
        raise CommandError("nothing to change was given; dledger account alter --help", USAGE)
    if save is not None:
        if "secretKey" not in row:
            raise CommandError("--save needs --new-secret or --secret-file; give one", USAGE)
        _save(save, name, row["secretKey"])
    shown = {"account": name, "changed": sorted(set(row) - {"accessKey", "keepSecret"})}
    drawn = new_secret and not (secret_file or save)
    if drawn:
        shown["secret"] = row["secretKey"]

    def told() -> None:
        emit([shown], output)

    with _told_all_the_same(told if drawn else None) as done:
        _change(address, done=done, alter=[row])
    told()


def _old_secret(keep_old: bool, end_old: bool, *, has_new: bool) -> dict[str, Any]:
    """The fields of a row that keep the secret until now, or end the one before."""
    if keep_old and not has_new:
        raise CommandError("--keep-old needs --new-secret or --secret-file; give one", USAGE)
    if keep_old and end_old:
        raise CommandError("--keep-old and --end-old exclude each other; give one", USAGE)
    if keep_old:
        return {"keepSecret": True}
    return {"previousSecretKey": None} if end_old else {}


@account.command("delete")
@click.argument("name")
@yes_option
@address_option
@output_option
def delete(name: str, yes: bool, address: Reach, output: str) -> None:
    """Delete account NAME; its requests are refused from then on, on every connection."""
    confirm_deletion(name, f"delete the account {name} and refuse all of its clients?", yes)
    brokers = _change(address, delete=[name])
    emit([{"account": name, "deleted_on": brokers}], output)


@account.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only read the file, and show its accounts.")
@address_option
@output_option
def import_(file: Path, dry_run: bool, address: Reach, output: str) -> None:
    """Make the accounts of FILE, a plain_acl.yml, accounts of the log, administrators first.

    Up to 1,000 of them, and 2 MB, are made together or not at all; more are made in such steps. The
    first step asks everybody for an account, so give --account of an administrator of FILE then. An
    import that failed can be asked for again.
    """
    rows, white = _read(file)
    if not dry_run:
        for step in import_steps(rows):
            _change(address, put=step)
    emit([account_facts(row) for row in rows], output, COLUMNS)
    if white:
        click.echo(
            f"globalWhiteRemoteAddresses of {file} stay in each node's own file; keep it there "
            "(broker.acl_file) if these addresses shall go on without accounts",
            err=True,
        )


@contextlib.contextmanager
def _told_all_the_same(told: Callable[[], None] | None) -> Iterator[list[str]]:
    """Tell a drawn secret also when the change failed behind a broker name that has it now.

    Gives the list that `_change` fills with the names that did.
    """
    done: list[str] = []
    try:
        yield done
    except ClusterError as error:
        if told is not None and may_be_changed(error, done):
            told()
            click.echo(
                f"the secret above counts on {', '.join(done) or 'no broker name for certain'}; "
                "put it into a file, and finish the rest with the same command and --secret-file",
                err=True,
            )
        raise


def _change(address: Reach, done: list[str] | None = None, **parts: Any) -> list[str]:
    async def work() -> list[str]:
        async with connected(address) as client:
            return await change_accounts(client.instance, done=done, **parts)

    return asyncio.run(work())


def _read(file: Path) -> tuple[list[dict[str, Any]], bool]:
    """The file's rows, and whether it has addresses that need no account."""
    import yaml

    from cluster.core.access.accounts import AccountsError, read_accounts

    try:
        document = yaml.safe_load(file.read_bytes())
        read_accounts(document)
    except (yaml.YAMLError, UnicodeDecodeError, AccountsError) as error:
        raise CommandError(
            f"{file} is no accounts file, {' '.join(str(error).split())}; correct it, "
            "or give another",
            USAGE,
        ) from None
    rows = [
        {**row, "accessKey": str(row["accessKey"]), "secretKey": str(row["secretKey"])}
        for row in document.get("accounts") or ()
    ]
    return rows, bool(document.get("globalWhiteRemoteAddresses"))


def _secret_of(file: Path | None) -> str:
    if file is None:
        return random_secret()
    with file.open("rb") as opened:
        lines = opened.read(SECRET_FILE_BYTES_MAX).decode(errors="replace").splitlines()
    if not lines or not lines[0].strip():
        raise CommandError(f"{file} has no first line; write the secret key there", USAGE)
    return lines[0].strip()


def _save(file: Path, name: str, secret: str) -> None:
    """Before the account is made: a lost secret is worse than a file too many."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(f"accessKey: {name}\nsecretKey: {secret}\n")
