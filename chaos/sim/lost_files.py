"""Both copies of a small file of one machine are lost, by rot or by a deletion."""

from __future__ import annotations

from chaos.sim.node import SimNode
from chaos.sim.storage import DOUBLE_SLOT_FILES, FOLDER, INTENT_FILE, MARK_FILE
from dledger.log import log_start

#: Bytes that are no slot.
_SPOILT = b"\xa5"


#: Either says where the log begins; there once its first files were deleted.
START_FILES = tuple(f"{FOLDER}/{name}" for name in log_start.FILE_NAMES)


def files_of(node: SimNode) -> tuple[str, ...]:
    """Small files of the machine of which one may be lost.

    Of the two that say where the log begins both must be there: a process may have been killed
    over a state that it installs, and then the first one alone says so.
    """
    there = node.disk.names.seen
    is_second_there = all(name in there for name in START_FILES)
    return (*DOUBLE_SLOT_FILES, *(START_FILES if is_second_there else ()))


def forgets(name: str) -> bool:
    """Was a promise in the file, so that the machine goes on as another incarnation?"""
    return name != INTENT_FILE and name not in START_FILES


def lose(node: SimNode, name: str, *, deleted: bool) -> None:
    """Ends the process, loses both copies on the disk as well, and starts the machine again.

    A power cut may leave a hole among records that no sync has covered, and the mark that is found
    again stand behind it. That is damage, on which only a node that repairs its log starts.
    """
    assert node.incarnations is not None
    assert node.network is not None
    power = node.random.random() < 0.5
    node.crash(power=power and (name != MARK_FILE or node.repair_settings is not None))
    if name in START_FILES and _is_only_one(node, name):
        node.start()
        return
    if forgets(name):
        node.network.forget(node.index)
        node.incarnations[node.index] += 1000
        node.flushed_at_vote = -1
    if deleted:
        node.disk.names.lose(name)
    else:
        inode = node.disk.names.seen[name]
        inode.data = bytearray(_SPOILT * len(inode.data))
        inode.durable = bytearray(inode.data)
        inode.pending.clear()
        node.disk.flips.pop(name, None)
    node.start()


def _is_only_one(node: SimNode, name: str) -> bool:
    """Does the other file say less than the log needs?

    A process was killed while it made the log empty, or a full disk had no space for the second
    file: a loss of the first one is a second fault then.
    """
    other = next(other for other in log_start.FILE_NAMES if not name.endswith(f"/{other}"))
    copies = log_start.copies(node.disk, FOLDER, other)
    if log_start.read(node.disk, FOLDER) in copies:
        return any(copy.emptied for copy in copies)
    files = node.disk.list(FOLDER / "data")
    return not any(f"{copy.position:020}" in files for copy in copies)
