"""Is a send that an earlier leader was asked for in this leader's log? (kernel/net/in_doubt.py)

Only entries of earlier terms are looked at, once per leadership: they do not change while this node
leads, and they are committed, because it takes sends only when its first entry is applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from cluster.broker.produce.same_content import items_of
from cluster.errors import LeaderLostWhileWaiting
from cluster.protocol.send import SendRequest
from commitlog.files.system import Buffer
from commitlog.records.message_fast import scan_record
from commitlog.records.message_layout import HEADS, SYS_FLAG_LOW_AT
from commitlog.records.properties import find_property
from dledger.core.types import Index
from dledger.log.port import LogStore

ENTRIES_MAX: Final = 20_000  # a tenth of a second of reading; more are not looked through
_UNIQUE_KEY: Final = b"UNIQ_KEY"
_BORN_MS, _BORN_HOST = 8, 9  # fields of a record's head


class Identity(NamedTuple):
    """Identity of one message in one send: two sends differ in born time or address."""

    unique_key: bytes
    born_ms: int
    born_host: bytes


class StoredBefore:
    """Messages of earlier terms in the log, from `_after` on."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self.drop()

    def drop(self) -> None:
        """Leadership ended: the log may be another one when the next begins."""
        self._found: dict[Identity, Index] = {}
        self._after: Index | None = None

    def find(self, request: SendRequest, born_host: bytes, after: Index) -> Sequence[Index]:
        """Where its messages are, above `after`; empty when none of them is stored.

        Raises LeaderLostWhileWaiting when that cannot be told, StoreError for damage.
        """
        indexes = []
        for item in items_of(request):
            key = find_property(item.properties, _UNIQUE_KEY)
            if not key:
                raise _cannot_tell()
            identity = Identity(key, request.born_timestamp_ms, born_host)
            indexes.append(self._index(identity, after))
        found = [index for index in indexes if index is not None]
        if found and len(found) < len(indexes):  # a batch of which a part survived
            raise _cannot_tell()
        return found

    def _index(self, identity: Identity, after: Index) -> Index | None:
        """Index of the first record above `after` with this identity."""
        if self._after is None or after < self._after:
            self.look(after)
        index = self._found.get(identity)
        return index if index is not None and index > after else None

    def record(self, index: Index) -> Buffer:
        """The record at an index that was found."""
        return self._store.entry(index).body

    def look(self, after: Index) -> None:
        """Read the entries above `after`. Raises as `find`."""
        store = self._store
        first, last, term = Index(after + 1), store.last.index, store.last.term
        if self._after is not None:
            last = self._after
        if first < store.first_index or last - after > ENTRIES_MAX:
            raise _cannot_tell()
        found: dict[Identity, Index] = {}
        for entry in store.entries(first, last) if first <= last else ():
            if entry.header.epoch >= term:
                break
            identity = _identity(entry.body)
            if identity is not None:
                found.setdefault(identity, Index(entry.header.sequence))
        self._found = self._found | found  # of two the earlier one is the message, not a copy
        self._after = after


def _identity(record: Buffer) -> Identity | None:
    key = scan_record(record).unique_key
    if key is None:
        return None
    head = HEADS[record[SYS_FLAG_LOW_AT] >> 4 & 3].unpack_from(record, 0)
    return Identity(key, head[_BORN_MS], head[_BORN_HOST])


def _cannot_tell() -> LeaderLostWhileWaiting:
    return LeaderLostWhileWaiting(
        "the leader was lost before it answered, and it cannot be told whether the message is "
        "stored; look, or send again"
    )
