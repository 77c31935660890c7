"""`dledger inspect DIR` reads a store and tells whether it is whole: arguments, steps, exit codes.

Exit code 0: the store is whole. 1: bytes are damaged, or were written by a later release so that
this one cannot judge them; stderr says which and where. 2: the arguments or the folder are wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from commitlog.advice import with_advice
from commitlog.errors import StoreUsageError
from commitlog.files.held_locks import is_locked
from commitlog.files.system import OS_FILES, FileSystem
from commitlog.inspect.compare import DerivedCompare
from commitlog.inspect.fields import item_fields
from commitlog.inspect.geometry import DerivedSizes, derived_sizes
from commitlog.inspect.rebuild import Rebuild
from commitlog.inspect.slot_compare import SlotCompare
from commitlog.records import accel
from commitlog.store.committed import committed_index
from commitlog.store.reader import Finding, Item, StoreReader, find_parts
from commitlog.usage import Arguments

WHOLE, DAMAGED, USAGE = 0, 1, 2
#: A store that a process has open is read so often before it counts as damaged: it changes.
#: What is found at the same place each time is damage, no entry that was being written.
READS_OF_OPEN = 4
#: Lock file in a store's root and in a node's folder; a running process holds it.
LOCK_NAME = "lock"
#: In a node's folder: what its log begins behind. Either of the two may be lost.
LOG_STARTS = "logstart", "logstart.bak"
_NOT_ALLOWED = "read it as the user that the node runs as, or let this user read it"
_AS_FOUND = "instead of what the files themselves say"
_SUMMARY_FIELDS = (
    "kind",
    "records",
    "messages",
    "begin_position",
    "end_position",
    "first_index",
    "last_index",
    "last_term",
)


def arguments_of() -> argparse.ArgumentParser:
    """The options of `dledger inspect`."""
    parser = Arguments(
        prog="dledger inspect",
        description="Read a stopped store: count what is in it and look for damage. Never writes "
        "into it. If a process has the store open, a warning says that the figures may be old.",
        epilog="Exit code 0: whole; 1: damaged, or written by a later release and not judged "
        "(stderr says which files, and where); 2: wrong arguments or folder.",
    )
    parser.add_argument(
        "dir",
        metavar="DIR",
        type=Path,
        help="store root, dledger-<id> folder, folder of an embedded node or of a Host",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json", "jsonl"),
        default="text",
        help="text: a summary; json: the summary as an object; jsonl: one object per message",
    )
    parser.add_argument(
        "--rebuild", metavar="OUT", type=Path, help="write queues and index made from the log alone"
    )
    parser.add_argument("--queue-file-size", metavar="BYTES", type=_positive, help=_AS_FOUND)
    parser.add_argument("--index-slots", metavar="COUNT", type=_positive, help=_AS_FOUND)
    parser.add_argument("--index-entries", metavar="COUNT", type=_positive, help=_AS_FOUND)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError(text)
    return value


@dataclass(slots=True)
class Summary:
    """Counts and bounds of the records that were read; printed as text or JSON."""

    kind: str
    records: int = 0
    messages: int = 0
    begin_position: int | None = None
    end_position: int | None = None
    first_index: int | None = None
    last_index: int | None = None
    last_term: int | None = None
    topics: dict[str, dict[int, int]] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        """Count one item of the log: its record, and its message if it is one."""
        self.records += 1
        if self.begin_position is None:
            self.begin_position = item.position
        self.end_position = item.position + item.size
        if item.header is not None:
            if self.first_index is None:
                self.first_index = item.header.sequence
            self.last_index, self.last_term = item.header.sequence, item.header.epoch
        if item.message is not None:
            self.messages += 1
            queues = self.topics.setdefault(item.message.topic, {})
            queues[item.message.queue_id] = queues.get(item.message.queue_id, 0) + 1

    def as_object(self) -> dict[str, object]:
        """The summary as a JSON object, topics and queues in order."""
        fields: dict[str, object] = {name: getattr(self, name) for name in _SUMMARY_FIELDS}
        fields["topics"] = {
            topic: {str(queue_id): self.topics[topic][queue_id] for queue_id in sorted(queues)}
            for topic, queues in sorted(self.topics.items())
        }
        return fields

    def as_text(self) -> str:
        """The summary as lines of text, one for each field and each topic."""
        lines = [
            f"{name:16}{value}" for name, value in self.as_object().items() if name != "topics"
        ]
        for topic, queues in sorted(self.topics.items()):
            counts = "  ".join(f"{queue_id}: {queues[queue_id]}" for queue_id in sorted(queues))
            lines.append(f"{'topic':16}{topic}  messages by queue  {counts}")
        return "\n".join(lines)


NodeCheck = Callable[[FileSystem, Path, int], Iterable[Finding]]
Groups = Callable[[FileSystem, Path], Sequence[Path]]


def main(
    argv: Sequence[str] | None = None,
    *,
    files: FileSystem = OS_FILES,
    node_check: NodeCheck | None = None,
    groups: Groups | None = None,
) -> int:
    """Run the command; returns the exit code.

    `node_check(files, dledger-<id> folder, last index)` checks the small files of a node, which
    this package does not know. `groups(files, DIR)` returns the folders of the groups, if DIR holds
    several; each one is read separately, and the output names its folder.
    """
    try:
        options = arguments_of().parse_args(argv)
    except SystemExit as error:
        return USAGE if error.code else WHOLE
    accel.load()
    try:
        found = () if groups is None else groups(files, options.dir)
        if not found:
            return _inspect(options, files, node_check)
        if options.rebuild is not None:
            raise StoreUsageError(
                f"{options.dir} holds {len(found)} groups; give --rebuild the folder of one of them"
            )
        return max(_inspect_group(options, files, node_check, one) for one in found)
    except (StoreUsageError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # The program that reads our output has ended; write nothing more, also at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return WHOLE
        kind = "no-store" if isinstance(error, StoreUsageError) else "unreadable"
        advice = _NOT_ALLOWED if isinstance(error, PermissionError) else "check the path"
        print(f"dledger[{kind}]: {with_advice(str(error), advice)}", file=sys.stderr)
        return USAGE


def _inspect_group(
    options: argparse.Namespace, files: FileSystem, node_check: NodeCheck | None, folder: Path
) -> int:
    """One group of several: one that cannot be read is told, and the others are read."""
    of_group = argparse.Namespace(**vars(options) | {"dir": folder})
    try:
        return _inspect(of_group, files, node_check, folder.name)
    except BrokenPipeError:
        raise
    except (StoreUsageError, OSError) as error:
        _tell(options.output, {"folder": folder.name}, None, [_no_log(folder, error)])
        return DAMAGED


def _no_log(folder: Path, error: Exception) -> Finding:
    return Finding(str(folder), -1, f"its log cannot be read: {error}")


def _inspect(
    options: argparse.Namespace,
    files: FileSystem,
    node_check: NodeCheck | None,
    folder: str | None = None,
) -> int:
    named = {} if folder is None else {"folder": folder}
    try:
        root, logs = find_parts(options.dir, files)
    except StoreUsageError as error:
        found = [] if node_check is None else list(node_check(files, options.dir, -1))
        if not found:
            raise
        return _tell(options.output, named, None, [_no_log(options.dir, error), *found])
    folders = [one for one in (root, *(log.parent for log in logs)) if one is not None]
    is_open = any(is_locked(one / LOCK_NAME) for one in folders)
    if is_open:
        print(
            f"dledger inspect: a process has {folders[0]} open, so the figures may be old, and "
            "records that it is writing may look damaged; stop it to be sure",
            file=sys.stderr,
        )
    writes = options.output == "jsonl" or options.rebuild is not None
    judging = argparse.Namespace(**vars(options) | {"output": "json", "rebuild": None})
    left = READS_OF_OPEN if is_open else 1
    before: Sequence[Finding] | None = None
    written: Summary | None = None
    while True:  # at most `left` times
        left -= 1
        try:
            summary, findings = _judged(
                options if written is None else judging, files, node_check, named
            )
        except FileNotFoundError:
            if not left or (writes and written is None):
                raise  # what was printed until then is not printed twice
            continue
        if writes and written is None:
            written = summary
        if before is not None:
            findings = still_there(findings, before)
        if not left or not any(one.damage for one in findings):
            return _tell(options.output, named, written or summary, findings)
        before = findings


def still_there(found: Iterable[Finding], before: Iterable[Finding]) -> list[Finding]:
    """Findings of an open store, but damage only where the read before found some, too."""
    places = {(one.path, one.position) for one in before if one.damage}
    return [one for one in found if not one.damage or (one.path, one.position) in places]


def _judged(
    options: argparse.Namespace,
    files: FileSystem,
    node_check: NodeCheck | None,
    named: dict[str, str],
) -> tuple[Summary, list[Finding]]:
    """Read the store once."""
    with StoreReader(options.dir, files=files) as reader:
        committed = _committed(reader, files)
        sizes = derived_sizes(
            files,
            reader.root,
            queue_file_size=options.queue_file_size,
            index_slots=options.index_slots,
            index_entries=options.index_entries,
        )
        summary = Summary(_kind(reader))
        compare = _compare(reader, sizes, files)
        slots = _slots(reader, files)
        rebuild = _rebuild(reader, sizes, files, options.rebuild)
        for item in reader.items():
            summary.add(item)
            if options.output == "jsonl":
                print(json.dumps(named | item_fields(item), ensure_ascii=False))
            if compare is not None:
                compare.add(item)
            if slots is not None and item.header is not None:
                slots.add(item.header)
            if rebuild is not None:
                rebuild.add(item)
        findings = list(reader.findings)
        if compare is not None:
            findings += compare.findings(log_damaged=any(f.damage for f in findings))
            compare.close()
        if slots is not None:
            findings += slots.findings()
        findings += _lost_end(reader, summary, committed, files)
        if node_check is not None and reader.entries_folder is not None:
            last = -1 if summary.last_index is None else summary.last_index
            of_node = list(node_check(files, reader.entries_folder, last))
            named_by_it = {finding.path for finding in of_node}
            findings = [one for one in findings if one.path not in named_by_it] + of_node
        if rebuild is not None:
            rebuild.finish()
            rebuild.close()
    return summary, findings


def _tell(
    output: str, named: dict[str, str], summary: Summary | None, findings: Sequence[Finding]
) -> int:
    """Print the findings; the exit code. `summary`: None where no log could be read."""
    damaged = any(finding.damage for finding in findings)
    later = any(finding.later for finding in findings)
    if output == "json":
        found = [finding._asdict() for finding in findings]
        fields = {} if summary is None else summary.as_object()
        print(json.dumps(named | fields | {"damaged": damaged, "findings": found}))
    elif output == "text":
        for name in named.values():
            print(f"{'folder':16}{name}")
        if summary is not None:
            print(summary.as_text())
        print("DAMAGED, see stderr" if damaged else "NOT JUDGED, see stderr" if later else "whole")
    sys.stdout.flush()
    for finding in findings:
        print(finding, file=sys.stderr)
    return DAMAGED if damaged or later else WHOLE


def _kind(reader: StoreReader) -> str:
    kinds = ["dledger" if part.entries else "plain" for part in reader.parts]
    return "+".join(dict.fromkeys(kinds))


def _compare(reader: StoreReader, sizes: DerivedSizes, files: FileSystem) -> DerivedCompare | None:
    """The comparison of the log with queues and index; None for a log without a store root."""
    root = reader.root
    if root is None:
        return None
    clean = not files.exists(root / "abort")
    folder = reader.entries_folder
    committed = committed_index(files, folder) if folder is not None else None
    return DerivedCompare(
        files, root, sizes, log_begin=reader.begin, clean=clean, committed=committed
    )


def _slots(reader: StoreReader, files: FileSystem) -> SlotCompare | None:
    folder = reader.entries_folder
    if folder is None:
        return None
    index = folder / "index"
    if files.exists(index) and not files.is_dir(index):
        return None
    clean = not files.exists(folder.parent / "abort")
    return SlotCompare(files, index, clean=clean)


def _committed(reader: StoreReader, files: FileSystem) -> int | None:
    """Read before the log is: a node that runs goes on with both."""
    folder = reader.entries_folder
    return committed_index(files, folder) if folder is not None else None


def _lost_end(
    reader: StoreReader, summary: Summary, committed: int | None, files: FileSystem
) -> list[Finding]:
    """Report a log that ends, in zeros, before its committed index: those entries are lost."""
    folder = reader.entries_folder
    last = -1 if summary.last_index is None else summary.last_index
    if committed is None or committed <= last or folder is None:
        return []
    begins_later = any(files.exists(folder / name) for name in LOG_STARTS)
    if summary.last_index is None and begins_later:
        return []  # it may be empty behind a state that a leader sent: `node_check` knows
    reason = f"the log ends after entry {last}, but entry {committed} was committed"
    return [Finding(f"{folder}/data", summary.end_position or 0, reason)]


def _rebuild(
    reader: StoreReader, sizes: DerivedSizes, files: FileSystem, out: Path | None
) -> Rebuild | None:
    if out is None:
        return None
    with_ext = reader.root is not None and bool(files.list(reader.root / "consumequeue_ext"))
    return Rebuild(files, out, sizes, with_ext=with_ext)
