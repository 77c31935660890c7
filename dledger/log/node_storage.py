"""All that one replica keeps in its folder: format it once, open it as one thing.

format_node   empty folder → hard state, flush mark, intent; identity last. Explicit, once (R6)
open_node     lock, identity, hard state, recovered log
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from commitlog.errors import StoreLayoutError, StoreLocked
from commitlog.files.system import OS_FILES, FileSystem, Lock
from dledger.core.types import HardState, Term
from dledger.durable import configurations, flush_mark, small_files
from dledger.durable import hard_state as hard_state_file
from dledger.durable import identity as identities
from dledger.durable.flush_mark import NO_MARK, MarkFile
from dledger.durable.hard_state import HardStateFile
from dledger.durable.identity import Identity
from dledger.durable.mirrors import Mirrors
from dledger.durable.truncate_intent import IntentFile
from dledger.guard import refuse_without_assertions
from dledger.log.file_log import FileLog
from dledger.log.options import LogOptions
from dledger.log.tail_cache import CACHE_SIZE_MAX

_log = logging.getLogger(__name__)

LOCK_NAME = "lock"
#: Who loses one of these files does not know any more what it has promised.
PROMISES = (hard_state_file.FILE_NAME, flush_mark.FILE_NAME)


@dataclass(slots=True)
class NodeStorage:
    """An open folder. `close` ends it cleanly; after a failure it only releases files."""

    identity: Identity
    hard_state: HardStateFile
    log: FileLog
    lock: Lock

    def close(self, *, failed: bool = False) -> None:
        """Closes the files and frees the lock; with `failed`, without a last sync or mark (D5)."""
        if failed:
            self.log.abandon()
        try:
            self.log.close()
        finally:
            self.hard_state.close()
            self.lock.release()


def format_node(
    folder: Path, identity: Identity, *, incarnation: int, files: FileSystem = OS_FILES
) -> None:
    """Make `folder` the folder of a new node with an empty log and term 0.

    Raises StoreLayoutError when it holds a log or belongs to a node already. A crash in the middle
    leaves it unformatted, and formatting can be tried again. `incarnation` is drawn at random by
    the caller, 64 bits.
    """
    options_of(identity).validate()
    refuse_used(files, folder)
    staging = folder / "staging"
    for path in (folder, folder / "data", folder / "index", staging):
        files.make_dirs(path)
    state = HardState(Term(0), None, incarnation)
    HardStateFile.create(files, folder, state, staging=staging).close()
    MarkFile.create(files, folder, NO_MARK, staging=staging).close()
    IntentFile.create(files, folder, staging=staging).close()
    configurations.create(files, folder, staging=staging)
    identities.write(files, folder, identity, staging=staging)


def refuse_used(files: FileSystem, folder: Path) -> None:
    """Raises StoreLayoutError for a folder that holds a log or belongs to a node."""
    if files.exists(folder / identities.FILE_NAME):
        raise StoreLayoutError(f"{folder} is formatted already; start the node on it")
    for name in ("data", "index"):
        if files.list(folder / name):
            raise StoreLayoutError(
                f"{folder / name} holds files and the folder was never formatted; "
                "import them, or move them away"
            )


def open_node(
    folder: Path,
    *,
    cluster_id: str,
    group: str,
    node_id: str,
    clock: Callable[[], float],
    files: FileSystem = OS_FILES,
    prewrite_zeros: bool = False,
    repairable: bool = False,
    refilled: bool = False,
    draw_incarnation: Callable[[], int] | None = None,
    cache_size_max: int = CACHE_SIZE_MAX,
) -> NodeStorage:
    """Open and recover a formatted folder. `repairable`, `refilled`: of the log (options.py).

    `draw_incarnation`: at random, 63 bits. With it a folder that lost both slots of its hard state
    or of its flush mark opens as another incarnation, which promises nothing until the group has
    readmitted it (R6). Without it such a folder does not open.

    Raises NotFormatted, WrongIdentity, StoreLocked, HardStateLost, LogDamaged, StoreLayoutError,
    OSError, and NodeFailed under `python -O`; then nothing stays open.
    """
    refuse_without_assertions()
    found = identities.read(files, folder)
    identities.check(found, cluster_id=cluster_id, group=group, node_id=node_id, folder=folder)
    try:
        lock = files.lock(folder / LOCK_NAME)
    except BlockingIOError as error:
        raise StoreLocked(f"{folder} is open in another process; stop that one first") from error
    hard_state: HardStateFile | None = None
    try:
        mirrors = Mirrors(files, folder, staging=folder / "staging")
        lost: tuple[str, ...] = ()
        if draw_incarnation is not None:
            lost = begin_anew_if_lost(files, folder, draw_incarnation)
        hard_state = HardStateFile.open(files, folder, mirrors)
        options = options_of(found, prewrite_zeros=prewrite_zeros, cache_size_max=cache_size_max)
        forgets = draw_incarnation is not None and hard_state.state.forgot
        if forgets:  # at each start until it is readmitted
            _log.warning(
                "%s lost both copies of %s in %s: it may have forgotten votes and acknowledged "
                "entries, so it keeps its log and neither votes nor counts until the group has "
                "readmitted it: dledger member replace %s --yes",
                *(node_id, " and ".join(lost) or "a small file", folder, node_id),
            )
        options = replace(options, repairable=repairable, refilled=refilled, forgets=forgets)
        log = FileLog.open(files, folder, options, clock=clock, mirrors=mirrors)
    except BaseException:
        if hard_state is not None:
            hard_state.close()
        lock.release()
        raise
    return NodeStorage(found, hard_state, log, lock)


def begin_anew_if_lost(
    files: FileSystem, folder: Path, draw_incarnation: Callable[[], int]
) -> tuple[str, ...]:
    """Begin another incarnation on a folder that forgot its votes or where its log ended (R6).

    It is on disk before anything else is touched, so nobody believes the flush mark that is made
    again behind it. The term is a lower bound: the log may have a later one. Returns the names of
    the lost files, () when the folder goes on as it was. Raises OSError.
    """
    lost = tuple(name for name in small_files.lost(files, folder) if name in PROMISES)
    if not lost:
        return ()
    term, vote = Term(0), None
    known = hard_state_file.peek(files, folder)
    if known is not None:
        term, vote = known.term, known.voted_for
    state = HardState(term, vote, draw_incarnation(), forgot=True)
    HardStateFile.remake(files, folder, state, staging=folder / "staging").close()
    return lost


def options_of(
    identity: Identity, *, prewrite_zeros: bool = False, cache_size_max: int = CACHE_SIZE_MAX
) -> LogOptions:
    """The log's settings: those fixed by the identity, and those that each start may change."""
    return LogOptions(
        data_file_size=identity.data_file_size,
        index_file_size=identity.index_file_size,
        first_position=identity.first_position,
        first_index=identity.first_index,
        upgrade_index=identity.upgrade_index,
        prewrite_zeros=prewrite_zeros,
        cache_size_max=cache_size_max,
    )
