"""From a configuration to an open folder: format it once, open it at every start."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from commitlog.files.system import OS_FILES, Buffer, FileSystem
from dledger.config import RaftConfig
from dledger.core.configuration import Configuration, Member, of_voters
from dledger.core.types import NO_INDEX, Index, NodeId, Term
from dledger.durable import configurations, hard_state, small_files
from dledger.durable import identity as identities
from dledger.durable.configurations import Codec, ConfigurationFile
from dledger.errors import HardStateLost, LogUsageError
from dledger.guard import refuse_without_assertions
from dledger.log import log_start
from dledger.log.log_start import LogStart
from dledger.log.node_storage import PROMISES, format_node, open_node
from dledger.membership.generations import Generations
from dledger.membership.handshake import Member as Sender
from dledger.membership.incarnations import KnownPeers
from dledger.membership.members import decode_configuration, encode_configuration
from dledger.membership.roster import NodeIncarnation, Roster
from dledger.replica.envelope import open_members
from dledger.replica.ports import StateMachine
from dledger.runtime.clock import Clock, SystemClock
from dledger.runtime.futures import until_done
from dledger.runtime.later_files import refuse_later_files
from dledger.runtime.parts import Parts
from dledger.snapshots.snapshot_files import SnapshotFolder


def _initial(
    config: RaftConfig, voters: Sequence[NodeId] | None, start: LogStart | None
) -> Configuration:
    """The group before any entry of the log says otherwise.

    As deleted entries have left it, else who was there when the folder was formatted.
    """
    if start is not None:
        return decode_configuration(start.configuration.encode())
    names = sorted(config.peers) if voters is None else voters
    members = []
    for name in names:
        host, port = config.peers.get(name, ("", 0))
        members.append(Member(NodeId(name), address=f"{host}:{port}" if host else ""))
    return Configuration(tuple(members))


#: The group as entries of the log, and as text.
CODEC = Codec(open_members, encode_configuration, decode_configuration)
#: Incarnations are 63 bits, so that every language that reads the file can hold one.
_INCARNATION_BITS = 63


def draw_incarnation() -> int:
    """A number for a node's life on its folder, which no other one has."""
    return secrets.randbits(_INCARNATION_BITS)


def new_cluster_id() -> str:
    """A name for a new cluster; give the same one to every node."""
    return uuid.uuid4().hex


def format_folder(config: RaftConfig, *, joins: bool = False, files: FileSystem = OS_FILES) -> None:
    """Make `config.data_dir` the folder of a new, empty replica; once in its life (R6).

    `joins`: of a node that a running group will take in: until an entry of the log names it, it
    neither stands nor votes, whatever `config.peers` says.
    `config.cluster_id` must be set and the same on every node. Raises ValueError for an impossible
    configuration, LogUsageError without a cluster id, StoreLayoutError when the folder is in use,
    NodeFailed under `python -O`.
    """
    refuse_without_assertions()
    config.validate()
    if not config.cluster_id:
        raise LogUsageError(
            "formatting needs a cluster_id; give the same to every node, "
            f"{new_cluster_id()} would be a fresh one"
        )
    identity = identities.Identity(
        config.cluster_id,
        config.group,
        NodeId(config.node_id),
        data_file_size=config.data_file_size,
        index_file_size=config.index_file_size,
        voters=() if joins else tuple(NodeId(name) for name in sorted(config.peers)),
    )
    format_node(Path(config.data_dir), identity, incarnation=draw_incarnation(), files=files)


def _refuse_single_voter(
    config: RaftConfig, found: identities.Identity, folder: Path, files: FileSystem
) -> None:
    """The only voter of a group has no other member that could readmit it.

    Nothing is touched: files that are put back are found as they were. Raises HardStateLost,
    LogDamaged.
    """
    lost, state = forgotten(files, folder), hard_state.peek(files, folder)
    if not lost and state is not None and not state.forgot:
        return
    group = noted_group(found, folder, files, sorted(config.peers))
    member = group.member(NodeId(config.node_id))
    is_named = state is not None and member is not None and member.incarnation == state.incarnation
    if group.voters == (config.node_id,) and (lost or not is_named):
        what = " and ".join(lost) or "hardstate or flushmark"
        raise HardStateLost(
            f"both copies of {what} in {folder} were lost, and this node is its group's only "
            "voter, so no other one can say what it had voted and acknowledged; put the file "
            f"back, or go on with what is left: dledger member recover {folder} --unsafe"
        )


def forgotten(files: FileSystem, folder: Path) -> tuple[str, ...]:
    """Which of the files that a node's promises rest on are lost now."""
    return tuple(name for name in small_files.lost(files, folder) if name in PROMISES)


def noted_group(
    found: identities.Identity, folder: Path, files: FileSystem, peers: Sequence[str] = ()
) -> Configuration:
    """The group as it was noted last, without the log; `peers` when it never was.

    Raises LogDamaged.
    """
    text = configurations.newest_copy(files, folder)
    if text is not None:
        return decode_configuration(text)
    start = log_start.read(files, folder)
    if start is not None and start.configuration:
        return decode_configuration(start.configuration.encode())
    voters = peers if found.voters is None else found.voters
    return of_voters(tuple(NodeId(name) for name in voters))


def open_folder(
    config: RaftConfig,
    machine: StateMachine,
    *,
    files: FileSystem = OS_FILES,
    clock: Clock | None = None,
    applied: Index = NO_INDEX,
    noop_body: Callable[[Term], Buffer] | None = None,
) -> Parts:
    """Open and recover the folder; return the parts of a `Driver`.

    Raises ValueError, LaterVersion before anything is touched, NotFormatted, WrongIdentity,
    StoreLocked, HardStateLost, LogDamaged, StoreLayoutError, OSError.
    """
    refuse_without_assertions()
    config.validate()
    folder = Path(config.data_dir)
    refuse_later_files(files, folder)
    found = identities.read(files, folder)
    _refuse_single_voter(config, found, folder, files)
    storage = open_node(
        folder,
        cluster_id=config.cluster_id or found.cluster_id,
        group=config.group,
        node_id=config.node_id,
        clock=(clock or SystemClock()).now,
        files=files,
        prewrite_zeros=config.prewrite_zeros,
        repairable=True,
        refilled=len(config.peers) > 1,
        draw_incarnation=draw_incarnation,
    )
    try:
        peers = KnownPeers(files, folder)
        generations = Generations(files, folder, NodeId(config.node_id))
        group = ConfigurationFile(files, folder, storage.log, CODEC, staging=folder / "staging")
    except BaseException:
        storage.close()
        raise
    state = storage.hard_state.state
    member = Sender(found.cluster_id, found.group, NodeId(config.node_id), state.incarnation)
    return Parts(
        log=storage.log,
        hard=storage.hard_state,
        member=member,
        machine=machine,
        roster=Roster(
            peers, NodeIncarnation(member.node_id, member.incarnation), witness=generations
        ),
        generations=generations,
        initial=_initial(config, found.voters, storage.log.start),
        group=group,
        close=lambda failed: storage.close(failed=failed),
        noop_body=noop_body,
        applied=applied,
        snapshots=SnapshotFolder(files, folder),
    )


async def open_aside(
    config: RaftConfig,
    machine: StateMachine,
    look: Callable[[Parts], object],
    files: FileSystem,
    clock: Clock,
) -> Parts:
    """As `open_folder`, in a thread, where `look` reads of the parts before they are used.

    Opening reads files and waits for syncs; the event loop serves other groups meanwhile. A call
    that is cancelled waits for the thread, and leaves the folder closed. Raises as both.
    """

    def work() -> Parts:
        parts = open_folder(config, machine, files=files, clock=clock)
        try:
            look(parts)
        except BaseException:
            parts.close(False)
            raise
        return parts

    opening = asyncio.gather(asyncio.to_thread(work), return_exceptions=True)
    try:
        await until_done(opening)
    except asyncio.CancelledError:
        if isinstance(opened := opening.result()[0], Parts):
            opened.close(False)
        raise
    (opened,) = opening.result()
    if isinstance(opened, BaseException):
        raise opened
    return opened
