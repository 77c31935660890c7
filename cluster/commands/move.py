"""`dledger import` and `dledger export`: whole stores, offline; dry runs unless --yes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cluster.commands.errors import USAGE, CommandError
from cluster.commands.local import any_port_option, fitted_members, nodes_option, root_option
from cluster.commands.output import emit, output_option
from cluster.commands.progress import Done, progress
from cluster.core.internal_topics import StateChange
from cluster.local import plan, profile
from cluster.local.launcher import LocalCluster
from cluster.local.log_sizes import settings_for
from cluster.local.node_files import write_node_file
from cluster.local.profile import BROKER, Member
from cluster.move.configs import read_configs
from cluster.move.into_log import import_into
from cluster.move.new_folders import all_or_nothing
from cluster.move.source import Source, Survey, refuse_used
from cluster.move.to_dledger import export_dledger, notes_for_03
from cluster.move.to_plain import export_plain
from cluster.settings.node import build_node, read_node
from commitlog.config import StoreConfig
from commitlog.files.system import OS_FILES

_FILE_SIZE_MIN = 1 << 20  # smaller log files leave no space for messages beside their overhead
_DIRECTORY = click.Path(path_type=Path, exists=True, file_okay=False)
_yes = click.option("--yes", is_flag=True, help="Do it; without this nothing is written.")


@click.command("import")
@click.argument("directory", type=_DIRECTORY)
@root_option
@nodes_option
@any_port_option
@_yes
@output_option
def import_(
    directory: Path, root: Path, nodes: int, any_port: bool, yes: bool, output: str
) -> None:
    """Make a new local cluster out of a RocketMQ store (plain, DLedger mode, upgraded).

    Give the folder of one stopped broker, or a copy. Every node gets the same log; topics, groups
    and consumer offsets come from config/*.json. Damaged stores are refused.
    """
    if profile.exists(root):
        raise CommandError(
            f"{root} has a cluster already; give another --root, or dledger down --purge", USAGE
        )
    source = Source(directory)
    source.refuse_running()
    survey = _survey(source)
    configs = read_configs(OS_FILES, source.root)
    changes = configs.changes(survey.queues)
    settings = _sizes(source, survey)
    entries = 0
    if yes:
        members = fitted_members(plan.plan(nodes), any_port)
        entries = _imported(source, survey, changes, root, members, settings)
    row = {
        **_row(survey),
        "groups": len(configs.groups),
        "offsets": sum(len(t) for change in configs.offsets for t in change.offsets.values()),
        "written": entries,
        "into": str(root),
    }
    _tell(row, [*survey.notes, *configs.notes], yes, f"dledger up --root {root}", output)


@click.command("export")
@click.argument("directory", type=_DIRECTORY)
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["plain", "dledger"]),
    default="plain",
    show_default=True,
    help="RocketMQ's usual layout, or that of its DLedger mode.",
)
@click.option("--node-id", default="n0", show_default=True, help="dledger-<id> in the new store.")
@click.option(
    "--commit-log-file-size",
    type=int,
    default=StoreConfig().commit_log_file_size,
    show_default=True,
    help="Bytes of a log file in a plain store.",
)
@_yes
@output_option
def export(
    directory: Path,
    out: Path,
    kind: str,
    node_id: str,
    commit_log_file_size: int,
    yes: bool,
    output: str,
) -> None:
    """Write the store of a stopped node as one that RocketMQ opens, into an empty folder.

    Of a cluster take the node whose log is the longest in the newest term (dledger status, before
    it is stopped): it has every acknowledged message.
    """
    source = Source(directory)
    source.refuse_running()
    survey = _survey(source)
    refuse_used(out)
    notes = list(survey.notes)
    written = 0
    if kind == "dledger":
        notes += notes_for_03(survey)
        if yes:
            with _written(survey) as told:
                written = export_dledger(source, survey, out, node_id, progress=told)
    elif yes:
        config = StoreConfig(commit_log_file_size=commit_log_file_size)
        with _written(survey) as told:
            written = export_plain(source, survey, out, config, progress=told)
    row = {**_row(survey), "written": written, "into": str(out)}
    _tell(row, notes, yes, f"dledger inspect {out}", output)


def _imported(
    source: Source,
    survey: Survey,
    changes: Sequence[StateChange],
    root: Path,
    members: Sequence[Member],
    settings: Mapping[str, str],
) -> int:
    """The cluster in `root`, whole or not at all; how many entries each node has."""
    with all_or_nothing([root]):
        planned = LocalCluster.planned(root, members, settings)
        files = [write_node_file(root, planned, member) for member in planned.of_kind(BROKER)]
        entries = import_into(
            source,
            survey,
            changes,
            [build_node(read_node(file, {})).raft for file in files],
            now_ms=time.time_ns() // 1_000_000,
            progress=lambda node: progress(f"{node}: entry", survey.messages + len(changes)),
        )
        # Last: dledger up starts no half of it.
        profile.save(root, replace(planned, formatted=True))
    return entries


def _survey(source: Source) -> Survey:
    with progress(f"{source.path}: reading"):
        return source.survey()


def _written(survey: Survey) -> AbstractContextManager[Done]:
    return progress("written: message", survey.messages)


def _sizes(source: Source, survey: Survey) -> dict[str, str]:
    """Settings of a cluster with log files of the source's size, so that addresses stay."""
    size = source.data_file_size
    if not source.keeps_addresses:
        return {}
    if size < _FILE_SIZE_MIN:
        source.readdressed = True
        survey.notes.append(
            f"its log files of {size} bytes are too small for a cluster, so every message gets a "
            "new physical offset"
        )
        return {}
    return settings_for(size)


def _row(survey: Survey) -> dict[str, Any]:
    return {
        "messages": survey.messages,
        "bytes": survey.body_bytes,
        "topics": len(survey.topics),
        "queues": len(survey.queues),
        "plain": survey.plain,
        "entries": survey.entries,
    }


def _tell(
    row: Mapping[str, Any], notes: list[str], done: bool, next_command: str, output: str
) -> None:
    emit([row], output, tuple(row))
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if done:
        click.echo(f"next: {next_command}", err=True)
    else:
        click.echo("nothing was written; the same command with --yes does it", err=True)
