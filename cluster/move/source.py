"""A store to be moved: opened for reading and walked once, to count it and to check every record.

Any store that the viewer reads: plain, DLedger mode, upgraded, a node of ours. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cluster.core.internal_topics import OWN_TOPICS
from cluster.move.errors import MoveRefused, damaged
from commitlog.errors import StoreLocked, StoreUsageError
from commitlog.files.held_locks import is_locked
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.records.message import Message
from commitlog.records.sys_flag import INNER_BATCH, goes_to_queue
from commitlog.store.layout import StoreLayout
from commitlog.store.reader import Item, StoreReader
from dledger.replica.envelope import ENTRY_TOPIC, MEMBERS_TOPIC, NOOP_TOPIC

LOCK_NAME = "lock"  # of a store's root (StoreLayout.lock), and of a node's folder in it
INTERNAL_TOPICS = OWN_TOPICS | {NOOP_TOPIC, MEMBERS_TOPIC, ENTRY_TOPIC}


@dataclass(slots=True)
class Survey:
    """The contents of a source. `first` and `last`: indexes of its entries, -1 in a plain store."""

    messages: int = 0
    body_bytes: int = 0
    topics: dict[str, int] = field(default_factory=dict)
    queues: dict[tuple[str, int], int] = field(default_factory=dict)  # next offset of each
    largest: int = 0
    first: int = -1
    last: int = -1
    term: int = -1
    plain: int = 0
    entries: int = 0
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)  # queues with gaps or repeats

    def add(self, item: Item, message: Message) -> None:
        """Count one message; note when its queue does not go on with it."""
        self.messages += 1
        self.body_bytes += len(message.body)
        self.largest = max(self.largest, item.size)
        self.topics[message.topic] = self.topics.get(message.topic, 0) + 1
        if item.header is None:
            self.plain += 1
        else:
            self.first = item.header.sequence if self.first < 0 else self.first
            self.last, self.term = item.header.sequence, item.header.epoch
            self.entries += 1
        if goes_to_queue(message.sys_flag) and not message.sys_flag & INNER_BATCH:
            self._in_queue(item, message)

    def _in_queue(self, item: Item, message: Message) -> None:
        queue = (message.topic, message.queue_id)
        known = self.queues.get(queue)
        if known is not None and message.queue_offset != known:
            self.faults.append(
                f"queue {message.queue_id} of {message.topic} goes on with offset "
                f"{message.queue_offset} at position {item.position}, where {known} follows"
            )
        self.queues[queue] = message.queue_offset + 1


class Source:
    """A stopped store. `survey` walks all of it and refuses a damaged one.

    Raises StoreUsageError when `path` is no store.
    """

    def __init__(self, path: Path, *, files: FileSystem = OS_FILES) -> None:
        self.path, self.files = path, files
        self.readdressed = False  # set by who cannot use log files of the source's size
        with StoreReader(path, files=files) as reader:
            self.root = reader.root
            self.entries_folder = reader.entries_folder
            self.has_plain = any(not part.entries and part.runs for part in reader.parts)
            runs = [run for part in reader.parts if part.entries for run in part.runs]
            self.data_file_size = runs[0].file_size if runs else 0
            self.first_position = runs[0].start if runs else 0
        self._unclean = self.root is not None and files.exists(StoreLayout(self.root).abort)

    @property
    def keeps_addresses(self) -> bool:
        """Can its entries keep positions, indexes and terms? Not with plain records before them."""
        return not (self.readdressed or self.has_plain) and self.entries_folder is not None

    def refuse_running(self) -> None:
        """Raises StoreLocked when a node has the store open.

        What it writes while the store is read would be taken for damage, or be missing in the copy.
        The lock is looked at, not taken: a source is not written, and may be on a read-only disk.
        """
        for folder in dict.fromkeys((self.root, self.entries_folder)):
            if folder is not None and is_locked(folder / LOCK_NAME):
                raise StoreLocked(
                    f"a running node has {folder} open; stop it (dledger down stops those of "
                    "dledger up), or give a copy of the folder, and try again"
                )

    def survey(self) -> Survey:
        """Read everything. Raises MoveRefused for damage and for entries that are no messages."""
        survey = Survey()
        with StoreReader(self.path, files=self.files) as reader:
            for item in reader.items():
                if item.message is None:
                    raise MoveRefused(
                        f"entry {item.header.sequence if item.header else -1} of {self.path} "
                        "holds no message; open such a log with dledger.ReplicatedLog"
                    )
                survey.add(item, item.message)
            found = [finding for finding in reader.findings if finding.damage]
            if found:
                raise damaged(self.path, found)
            if survey.faults:
                raise MoveRefused(
                    f"{survey.faults[0]}; a store whose queues have gaps or repeats "
                    f"({len(survey.faults)} here) is not moved"
                )
            survey.notes += [str(finding) for finding in reader.findings]
        if self._unclean:
            survey.notes.append(
                f"{self.path} was not closed cleanly; what its last process had not written to "
                "the log is not in it"
            )
        return survey

    def items(self) -> Iterator[tuple[Item, Message]]:
        """Every message in log order; to be called after a `survey` that was content."""
        with StoreReader(self.path, files=self.files) as reader:
            for item in reader.items():
                assert item.message is not None, "the survey has seen that all are messages"
                yield item, item.message


def refuse_used(target: Path, files: FileSystem = OS_FILES) -> None:
    """Raises StoreUsageError when `target` holds anything."""
    if files.exists(target) and (not files.is_dir(target) or files.list(target)):
        raise StoreUsageError(f"{target} is not empty; give a folder that is, nothing is replaced")
