"""Options of every command that makes a node: folder, addresses, secrets, settings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cluster.commands.errors import USAGE, CommandError
from cluster.commands.local import setting_pairs

if TYPE_CHECKING:
    from cluster.local.new_node import NewNode, Shared

_DISABLED = "disabled"
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class NewNodeOptions:
    """The options that were given; None and () for the others."""

    broker: str | None
    name_server: tuple[str, ...]
    folder: Path | None
    listen: str | None
    admin: str | None
    like: Path | None
    secret_file: Path | None
    certificates: Path | None
    settings: tuple[str, ...]

    def shared(self) -> Shared:
        """The settings of the whole group. Raises SettingsError, CommandError."""
        from cluster.local import new_node

        found = new_node.shared_with(self.like) if self.like else new_node.Shared()
        values: dict[str, object] = {}
        if self.secret_file is not None:
            values |= new_node.read_secret(self.secret_file)
        if self.name_server:
            values["broker.name_servers"] = list(self.name_server)
        return found.with_settings({**values, **setting_pairs(self.settings)})

    def new(
        self, file: Path, name: str | None, members: tuple[str, ...], *, no_tls: bool = False
    ) -> NewNode:
        """The first node of a new group, or one like it. Raises SettingsError, CommandError.

        Members beyond this machine get TLS, or `no_tls` says that they need none.
        """
        from cluster.local import new_node
        from cluster.settings.settings import SettingsError

        shared = self.shared()
        if self.broker is not None:
            shared = shared.with_settings(
                {"raft.group": self.broker, "broker.broker_name": self.broker}
            )
        for member, place in map(new_node.read_member, members):
            if member in shared.members:
                raise SettingsError(f"{member} is named twice; give each member a name of its own")
            shared = shared.with_member(member, place)
        if not shared.members:
            shared = shared.with_member(name or "n0", new_node.read_place("127.0.0.1"))
        chosen = name or next(iter(shared.members))
        if no_tls:
            shared = self._without_tls(shared)
        elif self.like is None and self.certificates is None and (plain := shared.plain_peers()):
            raise CommandError(
                f"{', '.join(plain)}: beyond this machine, and without TLS the network there can "
                "read every message; make certificates with dledger tls init FOLDER --node "
                "NAME=HOST for each, and give --certificates FOLDER (--no-tls does without)",
                USAGE,
            )
        return self.node(file, chosen, shared.with_default(new_node.fresh_names()))

    def _without_tls(self, shared: Shared) -> Shared:
        if self.certificates is not None:
            raise CommandError("--no-tls and --certificates exclude each other; give one", USAGE)
        mode = shared.get("raft", "tls_mode") or _DISABLED
        if mode != _DISABLED:
            raise CommandError(
                f"the group's raft.tls_mode is {mode}, so a node without TLS reaches none of it; "
                "give --certificates instead of --no-tls",
                USAGE,
            )
        return shared.with_settings({"raft.tls_mode": _DISABLED})

    def _check_own_certificate(self, name: str, shared: Shared) -> None:
        """A certificate names one node, and serves no other than the one in --like."""
        from cluster.settings.node import build_node, read_node

        given = setting_pairs(self.settings)
        mode = shared.get("raft", "tls_mode") or _DISABLED
        if self.like is None or mode == _DISABLED or "raft.tls_certificate" in given:
            return
        if build_node(read_node(self.like, {})).raft.node_id != name:
            raise CommandError(
                f"the certificate in {self.like} is of its node and no other; give --certificates "
                f"FOLDER, which has that of {name}",
                USAGE,
            )

    def node(self, file: Path, name: str, shared: Shared) -> NewNode:
        """The node `name` of a group. Raises CommandError where it has no certificate it needs."""
        from cluster.local import new_node

        if self.certificates is None:
            self._check_own_certificate(name, shared)
        if self.certificates is not None:
            from cluster.security.certificates import node_settings

            found = node_settings(self.certificates, name)
            modes = {key: found.pop(key) for key in list(found) if key.endswith(".tls_mode")}
            shared = shared.with_settings(found).with_default(modes)
        return new_node.NewNode(
            name,
            shared,
            self.folder or file.absolute().parent / f"{name}-data",
            self.listen or "",
            new_node.DEFAULT_ADMIN if self.admin is None else self.admin,
        )


def new_node_options(function: Function) -> Function:
    """The options; `function` gets one argument for them, `options`."""

    @functools.wraps(function)
    def gathered(*args: Any, **given: Any) -> Any:
        own = {name: given.pop(name) for name in NewNodeOptions.__dataclass_fields__}
        return function(*args, options=NewNodeOptions(**own), **given)

    decorated: Any = gathered
    path = click.Path(path_type=Path, exists=True, dir_okay=False)
    for option in (
        click.option(
            "--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="A setting."
        ),
        click.option(
            "--secret-file",
            type=path,
            help="The secret of the cluster, one word; without it and --like a fresh one is drawn.",
        ),
        click.option(
            "--certificates",
            metavar="FOLDER",
            type=click.Path(path_type=Path, exists=True, file_okay=False),
            help="Encrypt with its certificate there, as dledger tls init makes it.",
        ),
        click.option(
            "--like",
            metavar="FILE",
            type=path,
            help="Members, secrets and settings of the group as another node's FILE has them.",
        ),
        click.option(
            "--admin",
            metavar="HOST:PORT",
            help='Its admin HTTP; 127.0.0.1:8080 unless given, "" for none.',
        ),
        click.option(
            "--listen", metavar="HOST", help="Listen here, as 0.0.0.0, instead of at its address."
        ),
        click.option(
            "--folder",
            type=click.Path(path_type=Path, file_okay=False),
            help="Its store; NAME-data beside FILE unless given.",
        ),
        click.option(
            "--name-server", multiple=True, metavar="HOST:PORT", help="Registers there; repeatable."
        ),
        click.option(
            "--broker", help="Broker name: of the new group, or which one where there are several."
        ),
    ):
        decorated = option(decorated)
    found: Function = decorated
    return found
