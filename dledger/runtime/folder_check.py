"""Faults in the small files of a node's folder, and how a start goes on with each. Only reads.

    file              one copy is damaged   no copy is whole          the file is gone
    identity          (it has one)          no start                  no start
    hardstate         the other counts      anew; a lone voter: none  as beside
    flushmark         the other counts      anew; a lone voter: none  as beside
    truncate          the other counts      made anew                 made anew
    logstart          the other counts      logstart.bak counts       logstart.bak counts
    logstart.bak      the other counts      logstart counts           logstart counts
    both of these                           no start                  no start
    configurations    the other counts      made anew of the log      made anew of the log
    generations       the other counts      no start                  anew, once peers have met it
    peers.json        (it has one)          no start                  made anew

"Anew": the node starts and counts for nothing until its group has readmitted it (R6). Tools ask
here and a start has its own readers; `tests/cluster/commands/test_damaged_folders.py` compares.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from commitlog.files.held_locks import is_locked
from commitlog.files.system import FileSystem
from commitlog.segments.next_file import is_segment_name, segment_name
from dledger.core.types import NodeId
from dledger.durable import (
    configurations,
    flush_mark,
    hard_state,
    identity,
    small_files,
    truncate_intent,
)
from dledger.durable.double_slot import is_later, slots_of
from dledger.durable.identity import Identity
from dledger.errors import LaterVersion, NodeFailed
from dledger.log import log_start
from dledger.log.node_storage import LOCK_NAME, PROMISES
from dledger.membership import generations, incarnations
from dledger.runtime.opening import noted_group
from dledger.snapshots import state_versions

_SLOTS = hard_state.FILE_NAME, flush_mark.FILE_NAME, truncate_intent.FILE_NAME
#: Files that only our nodes have: a folder of RocketMQ's has none of them.
_OURS = (
    *(*_SLOTS, configurations.FILE_NAME, *log_start.FILE_NAMES),
    *(generations.FILE_NAME, incarnations.FILE_NAME),
)
#: Mirrors for Java readers and the lock: what is in them is never read, but they are written.
_WRITTEN = "currterm", "checkpoint", LOCK_NAME


class Start(enum.Enum):
    """How a start on the folder ends."""

    AS_BEFORE = "it starts as before"
    ANEW = "it starts, and counts for nothing until its group has readmitted it"
    REFUSED = "it does not start"


class Flaw(NamedTuple):
    """A fault in a small file; `damage` False: all that it said is known.

    `in_the_way`: it is none of the node's files, and stands where one should be.
    """

    path: Path
    reason: str
    damage: bool = True
    start: Start = Start.AS_BEFORE
    in_the_way: bool = False


def has_lost_its_identity(files: FileSystem, folder: Path) -> bool:
    """Was it the folder of a node, of which all is there but the file with the node's name?

    False for a folder whose formatting did not end, as its log is empty, and for one of RocketMQ's.
    """
    path = folder / identity.FILE_NAME
    if files.exists(path) and not files.is_dir(path):
        return False
    return bool(log_start.positions(files, folder / "data")) and any(
        files.exists(folder / name) and not files.is_dir(folder / name) for name in _OURS
    )


def flaws(files: FileSystem, folder: Path, last_index: int | None = None) -> Iterator[Flaw]:
    """All faults of a node's small files; none for a folder of RocketMQ's, nor for later releases'.

    `last_index`: of the last entry that is in the log, None if it was not read. A file that cannot
    be read is a fault. Raises PermissionError alone, where this user may not read one: that is no
    damage, for which a backup would be restored.
    """
    path = folder / identity.FILE_NAME
    if not files.exists(path) and not has_lost_its_identity(files, folder):
        return
    owner: Identity | None = None
    try:
        owner = identity.read(files, folder)
    except LaterVersion:
        pass
    except PermissionError:
        raise
    except (NodeFailed, OSError) as error:
        yield _refused(path, _unreadable(error))
    looks: list[tuple[str, Callable[[], Iterator[Flaw]]]] = [
        *((name, lambda name=name: _slots(files, folder, name, owner)) for name in _SLOTS),
        (flush_mark.FILE_NAME, lambda: lost_end(files, folder, last_index)),
        (hard_state.FILE_NAME, lambda: _not_readmitted(files, folder, owner)),
        (log_start.FILE_NAME, lambda: _log_start(files, folder, owner)),
        (configurations.FILE_NAME, lambda: _configurations(files, folder)),
        (generations.FILE_NAME, lambda: _generations(files, folder)),
        (incarnations.FILE_NAME, lambda: _peers(files, folder)),
    ]
    told = set[str]()
    for name, look in looks:
        try:
            for flaw in look():
                told.add(name)
                yield flaw
        except LaterVersion:
            continue
        except PermissionError:
            raise
        except (NodeFailed, OSError, ValueError, struct.error) as error:
            if name not in told:
                told.add(name)
                yield _refused(_path_of(error, folder / name), _unreadable(error))
    yield from _kinds(files, folder)


def _path_of(error: Exception, path: Path) -> Path:
    """The file that cannot be read, as the error names it: a log's beginning has two files."""
    told = error.filename if isinstance(error, OSError) else None
    return Path(told) if told is not None and Path(told).parent == path.parent else path


def _refused(path: Path, reason: str) -> Flaw:
    return Flaw(path, reason, start=Start.REFUSED)


def _unreadable(error: Exception) -> str:
    if isinstance(error, IsADirectoryError):
        return "a folder stands in its place, so no node starts; put the file back"
    if isinstance(error, OSError):
        return f"it cannot be read ({error.strerror or error}), so no node starts; put it back"
    if isinstance(error, NodeFailed):
        return str(error)
    return (
        f"its checksum is right and what it says is not ({error}), so no node starts; restore it "
        "from a backup or replace the node"
    )


def _slots(files: FileSystem, folder: Path, name: str, owner: Identity | None) -> Iterator[Flaw]:
    path = folder / name
    data = small_files.content(files, path)
    slots = slots_of(data)
    whole = [slot for slot in slots if slot is not None]
    if len(whole) == len(slots) or (not whole and is_later(data)):
        return
    if whole:
        reason = f"slot {slots.index(None)} is not valid, the other is; a start writes both anew"
        yield Flaw(path, reason, damage=False)
        return
    what = "neither of its slots is valid" if files.exists(path) else "it is missing"
    if name not in PROMISES:
        yield Flaw(path, f"{what}; a start makes it anew")
    elif is_only_voter(files, folder, owner):
        yield _refused(
            path,
            f"{what}, and no other member can say what this only voter of its group had voted and "
            "acknowledged, so it does not start; put the file back, or go on with what is left: "
            f"dledger member recover {folder} --unsafe",
        )
    else:
        yield Flaw(path, f"{what}: {_forgot(owner)}", start=Start.ANEW)


def _forgot(owner: Identity | None) -> str:
    node = "NODE" if owner is None else owner.node_id
    return (
        "the node may have forgotten votes or acknowledged entries: it starts, keeps its log, and "
        f"counts for nothing until its group has readmitted it (dledger member replace {node} "
        "--yes, in a program readmit_member)"
    )


def is_only_voter(files: FileSystem, folder: Path, owner: Identity | None) -> bool:
    """Is it the only voter of its group, as the group was noted last? False where no file says."""
    if owner is None:
        return False
    try:
        return noted_group(owner, folder, files).voters == (owner.node_id,)
    except (NodeFailed, OSError, ValueError):
        return False  # told of the file that says so


def _not_readmitted(files: FileSystem, folder: Path, owner: Identity | None) -> Iterator[Flaw]:
    """A node that had lost such a file, was started, and waits for its group."""
    state = hard_state.peek(files, folder)
    if state is None or not state.forgot or owner is None:
        return
    member = noted_group(owner, folder, files).member(NodeId(owner.node_id))
    if member is None or member.incarnation != state.incarnation:
        path = folder / hard_state.FILE_NAME
        start = Start.REFUSED if is_only_voter(files, folder, owner) else Start.ANEW
        yield Flaw(path, f"another one was lost before: {_forgot(owner)}", start=start)


def lost_end(files: FileSystem, folder: Path, last_index: int | None) -> Iterator[Flaw]:
    """The log ends before an entry that was on disk. A node that runs is writing both.

    Raises LaterVersion, OSError, struct.error.
    """
    mark = None if last_index is None else small_files.mark(files, folder)
    if mark is None or last_index is None:
        return
    last_index = max(last_index, index_before(files, folder))
    if mark.index <= last_index:
        return
    if not is_locked(folder / LOCK_NAME):
        yield Flaw(
            folder / flush_mark.FILE_NAME,
            f"entry {mark.index} was on disk, and the log ends after entry {last_index}: its end "
            "is lost; the node needs it from its peers",
        )


def index_before(files: FileSystem, folder: Path) -> int:
    """The entry that the log begins behind, -1 for none, or where `logstart` does not say.

    It is the log's last one behind a state that a leader sent, until the next entry comes.
    """
    try:
        start = log_start.read(files, folder)
    except (NodeFailed, OSError, ValueError):
        return -1
    return -1 if start is None else start.index


def _log_start(files: FileSystem, folder: Path, owner: Identity | None) -> Iterator[Flaw]:
    path = folder / log_start.FILE_NAME
    start = log_start.read(files, folder)
    if owner is not None:
        first = {"first_position": owner.first_position, "first_index": owner.first_index}
        if why := log_start.lost(files, folder, start, **first):
            yield _refused(path, log_start.told_lost(why))
            return
        if start is None:
            yield from _first_files(files, folder, owner)
    if start is None:
        return
    for name, other in (log_start.FILE_NAMES, log_start.FILE_NAMES[::-1]):
        if not files.exists(folder / name):
            if name == log_start.FILE_NAME:  # former releases wrote no second file
                reason = f"it is missing; {other} counts, and a start writes it anew"
                yield Flaw(path, reason, damage=False)
            continue
        texts = log_start.texts(files, folder, name)
        if any(text is not None for text in texts):
            yield from _one_copy(folder / name, texts)
        else:
            reason = f"neither copy is whole; {other} counts, and a start writes it anew"
            yield Flaw(folder / name, reason, damage=False)


def _first_files(files: FileSystem, folder: Path, owner: Identity) -> Iterator[Flaw]:
    """The first file was deleted by hand: the log itself has never deleted one."""
    there = log_start.positions(files, folder / "data")
    if not there or there[0] == owner.first_position:
        return
    path = folder / "data" / segment_name(owner.first_position)
    what = f"it is gone, and the log begins there; the first file that is left is {there[0]}"
    if is_only_voter(files, folder, owner):
        yield _refused(path, f"{what}, so no node starts; put back what is lost")
    else:
        yield Flaw(path, f"{what}; put back what is lost: a start asks peers for it")


def _configurations(files: FileSystem, folder: Path) -> Iterator[Flaw]:
    path = folder / configurations.FILE_NAME
    if not files.exists(path):
        reason = "it is missing; a start reads the log from end to end, once, and makes it anew"
        yield Flaw(path, reason, damage=False)
        return
    texts = configurations.texts(files, folder)
    if any(text is not None for text in texts):
        yield from _one_copy(path, texts, single=True)
        return
    reason = "neither copy is whole; a start reads the log from end to end, once, and makes it anew"
    yield Flaw(path, reason)


def _generations(files: FileSystem, folder: Path) -> Iterator[Flaw]:
    path = folder / generations.FILE_NAME
    if files.exists(path):
        generations.read_fields(files, folder)
        yield from _one_copy(path, generations.texts(files, folder))
        return
    try:
        has_met = bool(incarnations.read_known(files, folder))
    except (NodeFailed, OSError):
        return  # told of that file
    if has_met:
        yield Flaw(
            path,
            "it is missing, and the node has met peers: they take it for an older copy of its "
            "folder and refuse it; put the file back, or replace the node",
            start=Start.ANEW,
        )


def _peers(files: FileSystem, folder: Path) -> Iterator[Flaw]:
    path = folder / incarnations.FILE_NAME
    if files.exists(path):
        incarnations.read_known(files, folder)
        return
    if not files.exists(folder / generations.FILE_NAME):
        return
    try:
        met = generations.read_fields(files, folder)["met"]
    except (NodeFailed, OSError):
        return  # told of that file
    if met:
        yield Flaw(
            path,
            f"it is missing, and the node has met {', '.join(sorted(met))}: the next incarnation "
            "of each is taken for the first one; put it back if one was replaced since",
            damage=False,
        )


def _one_copy(path: Path, texts: list[bytes | None], *, single: bool = False) -> Iterator[Flaw]:
    """`single`: former releases wrote one copy."""
    if None in texts or (len(texts) == 1 and not single):
        yield Flaw(path, "one of its copies is not whole, the other is", damage=False)


def _kinds(files: FileSystem, folder: Path) -> Iterator[Flaw]:
    """Folders where files should be, and the other way round."""
    for name in ("index", "staging"):
        if files.exists(folder / name) and not files.is_dir(folder / name):
            yield _in_the_way(folder / name, "a file stands in its place, so no node starts")
    states = folder / state_versions.FOLDER
    if files.exists(states) and not files.is_dir(states):
        yield Flaw(states, "a file stands in its place; move it away", damage=False)
    for path in (folder / name for name in ("data", "index") if files.is_dir(folder / name)):
        for name in files.list(path):
            if not is_segment_name(name) or files.is_dir(path / name):
                yield _in_the_way(path / name, "it is no file of a log, so no node starts")
    if not files.is_dir(folder / "data") and not _is_empty(files, folder):
        reason = (
            "it is gone, and with it the log, so no node starts; put it back or replace the node"
        )
        yield _refused(folder / "data", reason)
    for name in _WRITTEN:
        if files.is_dir(folder / name):
            reason = "a folder stands in its place, so the node cannot write it and ends"
            yield _in_the_way(folder / name, reason)


def _is_empty(files: FileSystem, folder: Path) -> bool:
    """Has the log never had an entry? Then a start makes its folder anew."""
    if any(files.exists(folder / name) for name in ("data", *log_start.FILE_NAMES)):
        return False
    try:
        mark = small_files.mark(files, folder)
    except (LaterVersion, OSError, struct.error):
        return False
    return mark is not None and mark.position < 0


def _in_the_way(path: Path, reason: str) -> Flaw:
    return Flaw(path, f"{reason}; move it away", start=Start.REFUSED, in_the_way=True)
