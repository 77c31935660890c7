"""All that one replica keeps in its folder: format it once, open it as one thing.

format_node   empty folder → hard state, flush mark, intent; identity last. Explicit, once (R6)
open_node     lock, identity, hard state, recovered log
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from commitlog.errors import StoreLayoutError, StoreLocked
from commitlog.files.system import OS_FILES, FileSystem, Lock
from dledger.core.types import HardState, Term
from dledger.durable import configurations
from dledger.durable import identity as identities
from dledger.durable.flush_mark import NO_MARK, MarkFile
from dledger.durable.hard_state import HardStateFile
from dledger.durable.identity import Identity
from dledger.durable.mirrors import Mirrors
from dledger.durable.truncate_intent import IntentFile
from dledger.guard import refuse_without_assertions
from dledger.log.options import LogOptions
from dledger.log.tail_cache import CACHE_SIZE_MAX
from dledger.log.trimmable_log import TrimmableLog

LOCK_NAME = "lock"


@dataclass(slots=True)
class NodeStorage:
    """An open folder. `close` ends it cleanly; after a failure it only releases files."""

    identity: Identity
    hard_state: HardStateFile
    log: TrimmableLog
    lock: Lock

    def close(self, *, failed: bool = False) -> None:
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
    _refuse_used(files, folder)
    staging = folder / "staging"
    for path in (folder, folder / "data", folder / "index", staging):
        files.make_dirs(path)
    state = HardState(Term(0), None, incarnation)
    HardStateFile.create(files, folder, state, staging=staging).close()
    MarkFile.create(files, folder, NO_MARK, staging=staging).close()
    IntentFile.create(files, folder, staging=staging).close()
    configurations.create(files, folder, staging=staging)
    identities.write(files, folder, identity, staging=staging)


def _refuse_used(files: FileSystem, folder: Path) -> None:
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
    mended: bool = False,
    refilled: bool = False,
    cache_size_max: int = CACHE_SIZE_MAX,
) -> NodeStorage:
    """Open and recover a formatted folder. `mended`, `refilled`: the log is (options.py).

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
        hard_state = HardStateFile.open(files, folder, mirrors)
        options = options_of(found, prewrite_zeros=prewrite_zeros, cache_size_max=cache_size_max)
        options = replace(options, mended=mended, refilled=refilled)
        log = TrimmableLog.open(files, folder, options, clock=clock, mirrors=mirrors)
    except BaseException:
        if hard_state is not None:
            hard_state.close()
        lock.release()
        raise
    return NodeStorage(found, hard_state, log, lock)


def options_of(
    identity: Identity, *, prewrite_zeros: bool = False, cache_size_max: int = CACHE_SIZE_MAX
) -> LogOptions:
    """The log's settings: what the identity fixed, and what may differ at each start."""
    return LogOptions(
        data_file_size=identity.data_file_size,
        index_file_size=identity.index_file_size,
        first_position=identity.first_position,
        first_index=identity.first_index,
        upgrade_index=identity.upgrade_index,
        prewrite_zeros=prewrite_zeros,
        cache_size_max=cache_size_max,
    )
