"""The read side of any store, without a lock: for tools, on a stopped node or on a copy.

    plain RocketMQ store        <root>/commitlog/<20 digits>
    DLedger mode, a node of ours  <root>/dledger-<id>/data/<20 digits>
    upgraded ("mixed") store    both: plain files up to where the first dledger file begins
    a dledger-<id> folder       data/ in it; bodies need not be messages
    a node's folder             data/ in it is one of the store roots above

Nothing is ever changed. Sizes are taken from the files. What is wrong is collected as `Finding`s
and the walk goes on behind it; damaged bytes are never handed out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from commitlog.address import PORT_MAX
from commitlog.errors import StoreDamaged, StoreUsageError
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.records.message import Message, decode_message
from commitlog.records.message_fast import scan_record
from commitlog.records.message_layout import MAGIC_V1, MAGIC_V2
from commitlog.records.record import HEADER, HEADER_SIZE, RecordHeader
from commitlog.recovery.entry_walk import EntryWalk, LogEntry
from commitlog.recovery.plain_walk import PlainWalk, next_record
from commitlog.segments.next_file import is_segment_name
from commitlog.segments.segment_log import SegmentLog

_MESSAGE_MAGICS = (
    MAGIC_V1.to_bytes(4, "big", signed=True),
    MAGIC_V2.to_bytes(4, "big", signed=True),
)
#: Messages that a log of ours writes for itself, between entries of an embedder that are none.
_TOPICS_OF_A_LOG = {f"rmq_sys_dledger_{name}" for name in ("noop", "members", "entry")}


class Finding(NamedTuple):
    """A fault in a store's files. `damage` False: worth knowing, but no message is lost.

    `later`: a later release wrote it, so that this one cannot tell whether it is whole.
    """

    path: str
    position: int
    reason: str
    damage: bool = True
    later: bool = False

    def __str__(self) -> str:
        where = f" at position {self.position}" if self.position >= 0 else ""
        kind = "not judged" if self.later else "damaged" if self.damage else "note"
        return f"{kind}: {self.path}{where}: {self.reason}"


class Item(NamedTuple):
    """One whole record of a log.

    `header` is None in a plain store. `body` is the message record, or what else an entry holds;
    `message` is None when it holds no message. `position` and `size` are those of the entry in a
    dledger log, of the message in a plain one.
    """

    position: int
    size: int
    header: RecordHeader | None
    body: bytes
    message: Message | None

    @property
    def raw(self) -> bytes:
        """The bytes as they are in the log."""
        return self.body if self.header is None else HEADER.pack(*self.header) + self.body


@dataclass(slots=True)
class LogPart:
    """Files of one kind in one folder; `runs` are its unbroken ranges of addresses."""

    folder: Path
    entries: bool
    runs: list[SegmentLog] = field(default_factory=list)


def find_parts(path: Path, files: FileSystem = OS_FILES) -> tuple[Path | None, list[Path]]:
    """(store root or None, log folders) of the store or log at `path`; plain files come first.

    Raises StoreUsageError when it is no store, or holds several nodes' logs.
    """
    if files.is_dir(path / "data") and not files.is_dir(path / "commitlog"):
        inside = files.list(path / "data")
        if "commitlog" in inside or any(name.startswith("dledger-") for name in inside):
            return find_parts(path / "data", files)
        return None, [path / "data"]
    nodes = [
        path / name / "data"
        for name in files.list(path)
        if name.startswith("dledger-") and files.is_dir(path / name / "data")
    ]
    if len(nodes) > 1:
        names = ", ".join(node.parent.name for node in nodes)
        raise StoreUsageError(f"{path} holds the logs of several nodes ({names}); name one of them")
    plain = [path / "commitlog"] if files.is_dir(path / "commitlog") else []
    if not plain and not nodes:
        raise StoreUsageError(
            f"{path} is no store: it has neither commitlog/ nor dledger-<id>/data/ nor data/; "
            "give the folder of a stopped node or a store root"
        )
    return path, plain + nodes


class StoreReader:
    """Walks every message of a store; see the module. Raises StoreUsageError for no store.

    `findings` grows while `items` runs.
    """

    def __init__(self, path: Path, *, files: FileSystem = OS_FILES) -> None:
        self._files, self.path = files, path
        self.findings: list[Finding] = []
        self._messages_seen = False
        self.root, folders = find_parts(path, files)
        self.parts = [self._part(folder) for folder in folders]

    @property
    def entries_folder(self) -> Path | None:
        """The `dledger-<id>` folder, if the store has one."""
        return next((part.folder.parent for part in self.parts if part.entries), None)

    @property
    def begin(self) -> int:
        """Lowest address of the log."""
        return min((run.start for part in self.parts for run in part.runs), default=0)

    def _part(self, folder: Path) -> LogPart:
        """Sort the files of a folder into unbroken runs; note files that do not belong."""
        part = LogPart(folder, entries=folder.name == "data")
        sizes: dict[str, int] = {}
        for name in self._files.list(folder):
            if self._files.is_dir(folder / name):
                continue
            if not is_file_name(name):
                self._find(folder / name, -1, "this file does not belong into a store folder")
                continue
            sizes[name] = self._files.file_size(folder / name)
        if sizes and sizes[max(sizes)] == 0:
            del sizes[max(sizes)]
        if not any(sizes.values()):
            return part
        file_size = Counter(filter(None, sizes.values())).most_common(1)[0][0]
        names: list[str] = []
        for name, size in sorted(sizes.items()):
            if size != file_size:
                self._find(
                    folder / name, -1, f"it has {size} bytes, the other files have {file_size}"
                )
                continue
            if names and int(name) != int(names[-1]) + file_size:
                end = int(names[-1]) + file_size
                self._find(folder, end, f"the file that begins here is missing (next is {name})")
                part.runs.append(self._run(folder, file_size, names))
                names = []
            names.append(name)
        part.runs.append(self._run(folder, file_size, names))
        return part

    def _run(self, folder: Path, file_size: int, names: list[str]) -> SegmentLog:
        return SegmentLog(
            self._files,
            folder,
            file_size,
            staging=folder.parent / "staging",
            writable=False,
            names=names,
        )

    def _find(self, path: Path | str, position: int, reason: str, damage: bool = True) -> None:
        self.findings.append(Finding(str(path), position, reason, damage))

    # ---- walking ---------------------------------------------------------------------------------

    def items(self) -> Iterator[Item]:
        """Every whole record in log order; damaged ones are left out and become findings."""
        divided = self._first_entry_position()
        for part in self.parts:
            if part.entries:
                yield from self._entries(part)
            else:
                yield from self._records(part, divided)

    def _first_entry_position(self) -> int | None:
        runs = [run for part in self.parts if part.entries for run in part.runs]
        return runs[0].start if runs else None

    def _records(self, part: LogPart, limit: int | None) -> Iterator[Item]:
        for run in part.runs:
            position: int | None = run.start
            while position is not None:
                walk = PlainWalk(run, position, limit=limit)
                for record in walk:
                    data = record.data[record.offset : record.offset + record.size]
                    item = self._item(record.position, None, data, part.folder)
                    if item is not None:
                        yield item
                position = None
                if walk.fault is not None:
                    self._find(walk.fault.path, walk.end, walk.fault.reason)
                    position = next_record(run, walk.end, limit)

    def _entries(self, part: LogPart) -> Iterator[Item]:
        last: RecordHeader | None = None
        filled_from = self._upgrade_index(part.folder.parent)
        for run in part.runs:
            position: int | None = run.start
            anchored = last is None
            while position is not None:
                walk = EntryWalk(run, position, filled_from)
                walk.filled = not anchored and last is not None and bool(last.chain_crc)
                for entry in walk:
                    yield from self._entry(entry, part.folder)
                last = walk.last or last
                position = None
                if walk.fault is not None:
                    self._find(walk.fault.path, walk.end, walk.fault.reason)
                    position = walk.next_entry()
                    anchored = False

    def _upgrade_index(self, folder: Path) -> int | None:
        """From which index on entries have checksums, as the identity of a node of ours says."""
        path = folder / "identity"
        if not self._files.exists(path):
            return None
        try:
            fields = json.loads(self._files.read(path).partition(b"\n")[0])
            return int(fields["upgrade_index"])
        except (OSError, ValueError, KeyError, TypeError):
            self._find(path, -1, "the identity of the node cannot be read")
            return None

    def _entry(self, entry: LogEntry, folder: Path) -> Iterator[Item]:
        item = self._item(entry.header.position, entry.header, entry.body, folder)
        if item is not None:
            yield item

    def _item(
        self, position: int, header: RecordHeader | None, body: bytes, folder: Path
    ) -> Item | None:
        size = len(body) if header is None else header.size
        if header is not None and body[4:8] not in _MESSAGE_MAGICS:
            if not self._messages_seen:
                return Item(position, size, header, body, None)
            self._find(folder, position, f"entry {header.sequence} holds no message, others do")
            return None
        physical = position if header is None else position + HEADER_SIZE
        try:
            message = decode_message(body, verify_record=True)
        except StoreDamaged as error:
            self._messages_seen = True
            self._find(folder, position, f"the message is broken: {error.reason}")
            return None
        self._messages_seen |= message.topic not in _TOPICS_OF_A_LOG
        if message.physical_offset != physical or message.record_size != len(body):
            self._find(
                folder, position, f"the message says that it is at {message.physical_offset}"
            )
            return None
        odd = _oddity(body, message)
        if odd:
            self._find(folder, position, f"the message is broken: {odd}")
            return None
        summed = header is not None and bool(header.chain_crc or header.body_crc)
        if not summed and any(piece and b"\x01" not in piece for piece in _property_pieces(body)):
            # No checksum of Java's covers them, and none of its clients writes such a piece. Under
            # ours it is what some client sent, and readers skip it.
            self._find(folder, position, "the message's properties are broken")
            return None
        return Item(position, size, header, body, message)

    def close(self) -> None:
        """Release every file."""
        for part in self.parts:
            for run in part.runs:
                run.close()

    def __enter__(self) -> StoreReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_file_name(name: str) -> bool:
    """Is it an address in 20 digits, as all files of a log, a queue and an index of slots have?"""
    return is_segment_name(name) and int(name) < 1 << 63


def _oddity(record: bytes, message: Message) -> str:
    """A value that no writer lets into a record, so that it must be damage; "" for none."""
    topic = scan_record(record).topic
    try:
        text = topic.decode()
    except UnicodeDecodeError:
        return "its topic is no text"
    if text in ("", ".", "..") or "/" in text or "\0" in text:
        return f"its topic {text!r} cannot name a folder"
    for host in (message.born_host, message.store_host):
        if not 0 <= host.port <= PORT_MAX:
            return f"a host has port {host.port}"
    return ""


def _property_pieces(record: bytes) -> list[bytes]:
    """The pieces between the separators of the property block."""
    return scan_record(record).properties.split(b"\x02")
