"""What each writer of files does when the disk is full: all of them are in this table.

A new one is added here together with its answer, and with a test of it. Nothing is written through
a mapping (test_disk_calls.py), so a full disk is an OSError and never a signal.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .source_tree import PACKAGES, inside

AHEAD = "blocks come in steps before the write; no room: entries are refused, all else goes on"
GOES = "the file goes; a start without it reads the log from end to end"
WRITTEN = "overwrites bytes that have blocks since the file was made"
DERIVED = "blocks come before the write; no room: deriving rests and goes on (derived_space.py)"
LATER = "the old file stays whole and counts; tried again with the next round"
STARTS = "only when a node is made, starts or is opened: it does not, and says what to do"
ASKED = "the request or the step that asked for it fails and may be asked again"
ENDS = "the node ends with a sentence, and starts again when there is room"
TOOL = "a command or another program on a stopped store: it fails"

WRITERS = {
    "cluster/backup/places.py": TOOL,
    "cluster/bench/disk.py": TOOL,
    "cluster/broker/admin/lead_file.py": LATER,
    "cluster/broker/kernel/apply/checkpoint.py": LATER,
    "cluster/commands/restore.py": TOOL,
    "cluster/move/timer_check.py": TOOL,
    "cluster/move/to_dledger.py": TOOL,
    "cluster/move/to_plain.py": TOOL,
    "cluster/nameserver/kv_config.py": ASKED,
    "cluster/nameserver/used_seals.py": ASKED,
    "cluster/nameserver/replicated_kv.py": LATER,
    "commitlog/queues/batch_consume_queue.py": DERIVED,
    "commitlog/store/commit_log.py": AHEAD,
    "commitlog/store/config_json.py": LATER,
    "commitlog/queues/consume_queue.py": DERIVED,
    "commitlog/queues/consume_queue_ext.py": DERIVED,
    "commitlog/dispatch/dispatch_mark.py": LATER,
    "commitlog/files/content.py": "as the caller of `write_atomic` says: a file aside is not whole",
    "commitlog/index/index_file.py": DERIVED,
    "commitlog/index/index_service.py": DERIVED,
    "commitlog/store/layout.py": "an empty note that the store is open; the checkpoint is LATER",
    "commitlog/recovery/recovery.py": STARTS,
    "commitlog/segments/next_file.py": "as its owner says: the log AHEAD, queues DERIVED",
    "commitlog/segments/segment_log.py": "as its owner says: the log AHEAD, queues DERIVED",
    "dledger/membership/generations.py": LATER,
    "dledger/membership/incarnations.py": ASKED,
    "dledger/durable/configurations.py": GOES,
    "dledger/durable/double_slot.py": WRITTEN,
    "dledger/log/file_row.py": AHEAD,
    "dledger/durable/flush_mark.py": STARTS,
    "dledger/log/gone.py": ENDS,
    "dledger/durable/hard_state.py": STARTS,
    "dledger/durable/identity.py": STARTS,
    "dledger/log/java_store.py": TOOL,
    "dledger/log/log_start.py": LATER,
    "dledger/repair/scrubber.py": WRITTEN,
    "dledger/durable/mirrors.py": LATER,
    "dledger/log/node_storage.py": STARTS,
    "dledger/snapshots/snapshot_files.py": ENDS,
    "dledger/durable/truncate_intent.py": STARTS,
}
_CALLS = {"pwrite", "pwritev", "write_atomic"}
#: `create` of files, and of what is made of a file.
_MAKERS = {"files", "_files", "_fs", "OS_FILES", "DoubleSlot", "HardStateFile", "MarkFile",
           "IntentFile", "IndexFile"}  # fmt: skip


def _writes(tree: ast.AST) -> Iterator[int]:
    """Lines that name a way to write, whether they call it or hand it on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value).rpartition(".")[2]
            if node.attr in _CALLS or (node.attr == "create" and owner in _MAKERS):
                yield node.lineno


def test_every_writer_of_files_says_what_a_full_disk_does_to_it() -> None:
    found = {
        source.path
        for package in set(PACKAGES) - {"pipeline", "chaos"}
        for source in inside(package)
        if source.path != "commitlog/files/system.py" and any(_writes(source.tree))
    }
    assert found - WRITERS.keys() == set(), "say what it does, and test it"
    assert WRITERS.keys() - found == set(), "they write nothing any more"
