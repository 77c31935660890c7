"""Which commands exist, without importing them: start-up must stay under 0.3 s.

Other packages add theirs through the entry point groups `dledger.commands` and `dledger.benches`
(below `dledger bench`). The object there is a mapping name → `Lazy` or command, or a list of
commands.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import NamedTuple, cast

import click

COMMANDS_GROUP = "dledger.commands"
BENCHES_GROUP = "dledger.benches"
HELP_MAX = 200  # characters of a command's first sentence in the list of its group: three lines


class Lazy(NamedTuple):
    """A command that is imported when it is called: "module:attribute" and its line in the help."""

    target: str
    help: str


COMMANDS: dict[str, Lazy] = {
    "up": Lazy("cluster.commands.local:up", "Start a local cluster; returns when it is ready."),
    "down": Lazy("cluster.commands.local:down", "Stop the local cluster; --purge forgets it."),
    "ps": Lazy("cluster.commands.local:ps", "Processes, addresses and folders of the cluster."),
    "node": Lazy("cluster.commands.node:node", "Make and run one node, in the foreground."),
    "nameserver": Lazy(
        "cluster.commands.nameserver:nameserver", "Run one name server, in the foreground."
    ),
    "status": Lazy("cluster.commands.status:status", "Role, term and pointers of every node."),
    "doctor": Lazy("cluster.commands.doctor:doctor", "Find what is wrong, and say what to do."),
    "bundle": Lazy("cluster.commands.bundle:bundle", "Logs and status for a bug report."),
    "logs": Lazy("cluster.commands.local:logs", "Print or follow what a node has logged."),
    "leader": Lazy("cluster.commands.leader:leader", "Move or spread who leads, on purpose."),
    "member": Lazy("cluster.commands.members:member", "Add, remove and replace nodes."),
    "verify": Lazy("cluster.commands.repair:verify", "Are all replicas whole and the same?"),
    "scrub": Lazy("cluster.commands.repair:scrub", "Look for damage now; it is repaired."),
    "topic": Lazy(
        "cluster.commands.topics:topic", "Create, alter, list, describe and delete topics."
    ),
    "group": Lazy(
        "cluster.commands.groups:group", "Create, alter, describe and move consumer groups."
    ),
    "client": Lazy("cluster.commands.clients:client", "Connected producers and consumers."),
    "cluster": Lazy(
        "cluster.commands.whole_cluster:cluster", "Health, rates and events of all nodes."
    ),
    "produce": Lazy("cluster.commands.messages:produce", "Send the lines of stdin to a topic."),
    "consume": Lazy("cluster.commands.messages:consume", "Print the messages of a topic."),
    "message": Lazy("cluster.commands.message:message", "Find, follow and resend messages."),
    "dlq": Lazy("cluster.commands.dlq:dlq", "Dead letters: look, export, send again."),
    "schedule": Lazy("cluster.commands.waiting:schedule", "Delayed messages that wait."),
    "txn": Lazy("cluster.commands.waiting:txn", "Transactions without an outcome yet."),
    "account": Lazy(
        "cluster.commands.accounts:account", "Create, alter, list, import and delete accounts."
    ),
    "audit": Lazy("cluster.commands.audit:audit", "Changes and refusals: account, time, address."),
    "inspect": Lazy("cluster.commands.inspect:inspect", "Read a stopped node's files."),
    "import": Lazy("cluster.commands.move:import_", "A RocketMQ store becomes a local cluster."),
    "export": Lazy("cluster.commands.move:export", "A stopped node's store for RocketMQ."),
    "backup": Lazy("cluster.commands.backup:backup", "Copy a cluster's log while it runs."),
    "restore": Lazy("cluster.commands.restore:restore_", "A backup becomes a new cluster."),
    "tls": Lazy("cluster.commands.tls:tls", "Make and renew the certificates of a cluster."),
    "config": Lazy("cluster.commands.config:config", "Check and show settings and their origin."),
    "profile": Lazy(
        "cluster.commands.profiles:profile", "Name ways to reach clusters, and choose one."
    ),
    "completion": Lazy(
        "cluster.commands.completion:completion", "Complete commands in bash, zsh or fish."
    ),
    "bench": Lazy("cluster.commands.bench:bench", "Measure speed, failover, recovery, memory."),
}


class WholeHelpGroup(click.Group):
    """A group of commands; its help shows the whole first sentence of each command."""

    def help_of(self, ctx: click.Context, name: str) -> str | None:
        """The help of a command; None for a hidden one."""
        command = self.get_command(ctx, name)
        return None if command is None or command.hidden else command.get_short_help_str(HELP_MAX)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands that are not hidden."""
        rows = [(name, self.help_of(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, text in rows if text is not None])


class LazyGroup(WholeHelpGroup):
    """A group of commands that are imported one at a time, when they are called."""

    def __init__(self, *, lazy: Mapping[str, Lazy], plug_ins: str = "", **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self._lazy = dict(lazy)
        self._plug_ins = plug_ins
        self._whole = plug_ins == COMMANDS_GROUP

    def _load_plug_ins(self) -> None:
        if not self._plug_ins:
            return
        group, self._plug_ins = self._plug_ins, ""
        for point in sorted(entry_points(group=group)):
            try:
                offered = point.load()
            except (ImportError, AttributeError) as error:
                # A broken plug-in must not take the other commands with it.
                click.echo(f"commands of {point.value} are missing: {error}", err=True)
                continue
            for name, command in _named(offered):
                if isinstance(command, click.Command):
                    self.add_command(command, name)
                else:
                    self._lazy.setdefault(name, command)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, sorted, those of plug-ins too."""
        self._load_plug_ins()
        return sorted({*self._lazy, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; None for an unknown name.

        Raises ImportError; MissingExtra when an extra that is not installed brings the command.
        """
        if cmd_name not in self._lazy:
            self._load_plug_ins()
        if cmd_name not in self._lazy:
            found = super().get_command(ctx, cmd_name)
            if found is None and self._whole:
                from cluster.extras import missing_command  # not for every `dledger --help`

                if (missing := missing_command(cmd_name)) is not None:
                    raise missing
            return found
        module, _, attribute = self._lazy[cmd_name].target.partition(":")
        return cast(click.Command, getattr(importlib.import_module(module), attribute))

    def help_of(self, ctx: click.Context, name: str) -> str | None:
        """As in the table, without an import; None for a hidden command."""
        return self._lazy[name].help if name in self._lazy else super().help_of(ctx, name)


def _named(
    offered: Mapping[str, click.Command | Lazy] | Iterable[click.Command],
) -> Iterable[tuple[str, click.Command | Lazy]]:
    if isinstance(offered, Mapping):
        return offered.items()
    return [(command.name or "", command) for command in offered]
