"""Options of every command that makes a node: its name, members, folder, addresses, secrets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from cluster.local.new_node import NewNode, Shared

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class NewNodeOptions:
    """What was given; None and () for what was not."""

    name: str | None
    member: tuple[str, ...]
    broker: str | None
    name_server: tuple[str, ...]
    folder: Path | None
    listen: str | None
    admin: str | None
    like: Path | None
    secret_file: Path | None

    def shared(self, settings: Mapping[str, object]) -> Shared:
        """What the options say of the whole group; `settings` wins. Raises SettingsError."""
        from cluster.local import new_node

        found = new_node.shared_with(self.like) if self.like else new_node.Shared()
        members = {**found.members, **dict(map(new_node.read_member, self.member))}
        values: dict[str, object] = {}
        if self.secret_file is not None:
            values |= new_node.read_secret(self.secret_file)
        if self.broker is not None:
            values |= {"raft.group": self.broker, "broker.broker_name": self.broker}
        if self.name_server:
            values["broker.name_servers"] = list(self.name_server)
        return new_node.Shared(members, found.settings).with_settings({**values, **settings})

    def new(self, file: Path, settings: Mapping[str, object]) -> NewNode:
        """The node as they say it. Raises SettingsError."""
        shared = self.shared(settings)
        name = self.name or (next(iter(shared.members)) if shared.members else "n0")
        return self.node(file, name, shared)

    def node(self, file: Path, name: str, shared: Shared) -> NewNode:
        """The node `name` of a group; one without members is alone, on this machine."""
        from cluster.local import new_node

        if not shared.members:
            alone = dict([new_node.read_member(f"{name}=127.0.0.1")])
            shared = new_node.Shared(alone, shared.settings)
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
            "--secret-file",
            type=path,
            help="The secret of the cluster, one word; without it and --like a fresh one is drawn.",
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
        click.option("--broker", help="Broker name, and name of its Raft group."),
        click.option(
            "--member",
            multiple=True,
            metavar="NAME=HOST[:PORT[:PORT]]",
            help="One of the group: where clients (10911) and nodes (20911) reach it; repeatable.",
        ),
        click.option("--name", help="Its name; the first member's unless given."),
    ):
        decorated = option(decorated)
    found: Function = decorated
    return found
