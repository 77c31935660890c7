"""Values for embedders: entries of the log, and the status of the replica."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from commitlog.files.system import Buffer
from dledger.core.events import DiskChecked
from dledger.core.status import NodeStatus
from dledger.core.types import Index, Term
from dledger.errors import EntryTooLarge, LogUsageError
from dledger.log.port import Entry
from dledger.replica.envelope import Tag, is_envelope, is_noop, open_tagged
from dledger.runtime.link import LinkStatus


class LogEntry(NamedTuple):
    """One committed entry. `noop`: it only opened a leadership; its body is empty for you."""

    index: Index  # type: ignore[assignment]  # hides tuple.index
    term: Term
    body: bytes
    tag: Tag | None = None
    noop: bool = False


@dataclass(frozen=True, slots=True)
class LogStatus:
    """A picture of one replica. `node` is the core's; `links` say how peers are reached.

    `disk`: how this node's disk does (core/disk.py). `reads_by_lease`, `reads_by_index`: as leader,
    since it was started, for readers here and at followers. `apply_seconds`: time in the machine.
    """

    node: NodeStatus
    applied: Index
    first_index: Index
    end_position: int
    waiting_count: int
    links: dict[str, LinkStatus]
    disk: DiskChecked
    reads_by_lease: int
    reads_by_index: int
    apply_seconds: float


def entry_of(entry: Entry) -> LogEntry:
    """As an embedder sees it; the bytes are copied, so they stay valid."""
    index, term = Index(entry.header.sequence), Term(entry.header.epoch)
    if is_noop(entry.body):
        return LogEntry(index, term, b"", noop=True)
    tagged = open_tagged(entry.body)
    if tagged is None:
        return LogEntry(index, term, bytes(entry.body))
    return LogEntry(index, term, bytes(tagged.body), tagged.tag)


def check_body(body: Buffer, size_max: int) -> None:
    """Raises EntryTooLarge, LogUsageError for a body that cannot be an embedder's entry."""
    if len(body) > size_max:
        raise EntryTooLarge(
            f"an entry has {len(body)} bytes and {size_max} are allowed; send less "
            "or raise entry_size_max on every node if the files of the log are larger"
        )
    if is_envelope(body):
        raise LogUsageError(
            "this body would be taken for one of the log's own envelopes; "
            "put at least one byte of yours in front"
        )
