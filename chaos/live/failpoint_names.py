"""Every place at which a node persists or sends: the names of failpoints, derived and not listed.

    <file>.<action>.<moment>    data.write.torn, hardstate.sync.after, logstart.replace.before
    send.<message>.<moment>     send.VoteReply.after

    file     FILE_NAME of its writer's module; log, index, states, queues and key index by folder
    action   what the file-system port does to files: write, sync, create, replace, remove, and
             `list`, the sync of a folder
    moment   before, after; of what a crash can cut in two also torn

`tests/chaos/live/test_failpoints.py` compares this with the modules that write, with the methods of
the port and with the messages that exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from cluster.broker.kernel.apply import checkpoint
from commitlog.dispatch import dispatch_mark
from dledger.core import messages
from dledger.durable import configurations, flush_mark, hard_state, identity, truncate_intent
from dledger.log import gone, log_start
from dledger.membership import generations
from dledger.membership import incarnations as peers
from dledger.snapshots import snapshot_files as snapshots

WRITE, SYNC, CREATE, REPLACE = "write", "sync", "create", "replace"
REMOVE, LIST = "remove", "list"
MOMENTS: Mapping[str, tuple[str, ...]] = {
    WRITE: ("before", "torn", "after"),
    SYNC: ("before", "after"),
    CREATE: ("before", "after"),
    REPLACE: ("before", "torn", "after"),
    REMOVE: ("before", "after"),
    LIST: ("before", "after"),
}
_SLOTS = (WRITE, SYNC)
_ROW = (WRITE, SYNC, CREATE, REMOVE, LIST)

#: Files with a name of their own → what is done to them while a node starts and runs.
NAMED: Mapping[str, tuple[str, ...]] = {
    hard_state.FILE_NAME: _SLOTS,
    flush_mark.FILE_NAME: _SLOTS,
    truncate_intent.FILE_NAME: _SLOTS,
    configurations.FILE_NAME: (REPLACE,),
    **dict.fromkeys(log_start.FILE_NAMES, (REPLACE,)),
    gone.FILE_NAME: (REPLACE, REMOVE),
    peers.FILE_NAME: (REPLACE,),
    generations.FILE_NAME: (REPLACE,),
    checkpoint.FILE_NAME: (REPLACE,),
    dispatch_mark.NAME: (REPLACE, REMOVE),
    "currterm": (REPLACE,),
    "checkpoint": (REPLACE,),
}
#: Files by the folder that they are in → the same.
FOLDERS: Mapping[str, tuple[str, ...]] = {
    "data": _ROW,
    "index": _ROW,
    snapshots.FOLDER: (REPLACE, REMOVE, LIST),
    "consumequeue": _ROW,
    "keyindex": _ROW,
    "folder": (LIST,),  # of the log's small files
    "root": (LIST,),  # of the node's
}
#: Written once, before the node runs for the first time: there is nothing to lose yet.
FORMATTED = (identity.FILE_NAME,)

#: Of the service: it forwards reads, so the two messages of a follower's read index are not sent.
UNSENT = ("ReadIndexRequest", "ReadIndexReply")
MESSAGES = tuple(
    kind.__name__ for kind in get_args(messages.Message) if kind.__name__ not in UNSENT
)

#: Every failpoint; those of rare actions (truncation, a hand-over) need a fault that leads there.
NAMES: tuple[str, ...] = (
    *(
        f"{name.replace('.', '-')}.{action}.{moment}"
        for name, actions in {**NAMED, **FOLDERS}.items()
        for action in actions
        for moment in MOMENTS[action]
    ),
    *(f"send.{message}.{moment}" for message in MESSAGES for moment in ("before", "after")),
)


def place_of(path: Path) -> str:
    """Returns the name of a path's file as failpoints use it; "" for temporary files and staging
    folders, which have no failpoint."""
    parts, name = path.parts, path.name
    if name.endswith((".tmp", ".new")) or "staging" in parts[:-1]:
        return ""
    if name in NAMED and (path.parent.name.startswith("dledger-") or _is_root(path.parent)):
        return name.replace(".", "-")
    return folder_of(path.parent)


def folder_of(folder: Path) -> str:
    """The place that a folder's files belong to; "" for one that holds none of ours."""
    parts = folder.parts
    if "consumequeue" in parts:
        return "consumequeue"
    if folder.parent.name.startswith("dledger-") and folder.name in (*FOLDERS, "data"):
        return folder.name
    if folder.name == "index" and _is_root(folder.parent):
        return "keyindex"
    if folder.name.startswith("dledger-"):
        return "folder"
    return "root" if _is_root(folder) else ""


def _is_root(folder: Path) -> bool:
    """A node's data folder: the log's is in it."""
    return any(True for _ in folder.glob("dledger-*"))
