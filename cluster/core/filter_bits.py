"""SQL92 subscriptions registered here, and bitmaps of the groups that match a message.

    heartbeat ─► subscribe(group, expressions, store_ms) ─► k bit positions per group and topic
    dispatch  ─► bitmap(topic, properties)      ─► to the queue's extension (docs/spec/store.md 7.5)
    pull      ─► may_match(group, topic, text, unit)     ─► False: the record need not be read

A bitmap speaks only for expressions that were registered when the message was dispatched *here*.
Every replica derives its own queues, so a registration is born at the store time of the newest
message dispatched here, log time: later messages are stamped later or alike (R24), and only a
message stamped later may be skipped. A restart forgets registrations, and the next ones are born
later than all that was dispatched before. A group that left stays for DEAD_KEPT_MS of log time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cluster.core.sql92.expressions import Expression
from cluster.core.sql92.lexer import Sql92ParseError
from cluster.core.sql92.parser import parse
from commitlog.queues.bloom import BloomFilter, has_bits, new_bloom_filter, set_bits
from commitlog.queues.queue_ext_unit import QueueExtUnit
from commitlog.records.message_fast import ScannedRecord
from commitlog.records.properties import decode_properties

REGISTERED_MAX = 10_000  # group and topic pairs; each is evaluated for every message of its topic
DEAD_KEPT_MS = 24 * 3600 * 1000  # as RocketMQ keeps the entries of consumerFilter.json


@dataclass(frozen=True, slots=True)
class Registered:
    """One group's expression on one topic; `dead_ms` is 0 while the group has members."""

    group: str
    topic: str
    text: str
    expression: Expression
    positions: tuple[int, ...]
    born_ms: int
    version: int
    dead_ms: int = 0

    def is_seen(self, store_ms: int) -> bool:
        """Was the expression evaluated for a message stored then?"""
        return store_ms > self.born_ms and (not self.dead_ms or store_ms <= self.dead_ms)


class FilterBits:
    """The filter bits of one replica. `calculates` False: bitmaps are empty, none is skipped."""

    def __init__(self, *, calculates: bool = True, bloom: BloomFilter | None = None) -> None:
        self._calculates = calculates
        self.bloom = bloom or new_bloom_filter()
        self._topics: dict[str, dict[str, Registered]] = {}
        self.count = 0
        self.changes = 0

    def subscribe(self, group: str, wanted: Mapping[str, tuple[str, int]], store_ms: int) -> None:
        """All SQL92 subscriptions of a group now: topic → (expression, its version).

        An expression that cannot be read, or more than REGISTERED_MAX of them, are not
        registered: their messages are then read and evaluated one by one.
        """
        for topic, groups in self._topics.items():
            known = groups.get(group)
            if known is not None and topic not in wanted and not known.dead_ms:
                groups[group] = replace(known, dead_ms=max(store_ms, known.born_ms))
                self.changes += 1
        for topic, (text, version) in wanted.items():
            self._register(group, topic, text, version, store_ms)

    def _register(self, group: str, topic: str, text: str, version: int, store_ms: int) -> None:
        known = self._topics.get(topic, {}).get(group)
        if known is not None and known.text == text and not known.dead_ms:
            return
        if known is None and self.count >= REGISTERED_MAX:
            return
        try:
            expression = parse(text)
        except Sql92ParseError:
            self._forget(group, topic)
            return
        positions = self.bloom.positions(group, topic)
        self._topics.setdefault(topic, {})[group] = Registered(
            group, topic, text, expression, positions, store_ms, version
        )
        self.count += known is None
        self.changes += 1

    def leave(self, group: str, store_ms: int) -> None:
        """The group's last member has gone."""
        self.subscribe(group, {}, store_ms)

    def expire(self, store_ms: int) -> None:
        """Forget subscriptions that ended a day ago."""
        for registered in self.rows():
            if registered.dead_ms and registered.dead_ms + DEAD_KEPT_MS < store_ms:
                self._forget(registered.group, registered.topic)

    def _forget(self, group: str, topic: str) -> None:
        groups = self._topics.get(topic, {})
        if groups.pop(group, None) is not None:
            self.count -= 1
            self.changes += 1
            if not groups:
                del self._topics[topic]

    def rows(self) -> list[Registered]:
        """All of them, for consumerFilter.json."""
        return [row for groups in self._topics.values() for row in groups.values()]

    def wants(self, topic: str) -> bool:
        """Would `bitmap` look at a message of this topic?"""
        return self._calculates and topic in self._topics

    def bitmap(self, topic: str, properties: Mapping[str, str], store_ms: int) -> bytes:
        """Bits of every group with a true expression; empty when none is calculated."""
        if not self.wants(topic):
            return b""
        bits = self.bloom.empty()
        for row in self._topics[topic].values():
            if row.is_seen(store_ms) and row.expression.matches(properties):
                set_bits(bits, row.positions)
        return bytes(bits)

    def may_match(self, group: str, topic: str, text: str, unit: QueueExtUnit | None) -> bool:
        """False only when this message certainly is none for the group's expression."""
        if unit is None or not self._calculates or 8 * len(unit.bitmap) != self.bloom.m:
            return True
        row = self._topics.get(topic, {}).get(group)
        if row is None or row.text != text or not row.is_seen(unit.store_timestamp_ms):
            return True
        return has_bits(unit.bitmap, row.positions)


def bitmap_of(filters: FilterBits, record: ScannedRecord) -> bytes:
    """Bitmap of the groups that a message matches, at its dispatch; b"" without one. Properties are
    only read for topics with SQL92 subscriptions.
    """
    topic = record.topic.decode("utf-8", "replace")
    if not filters.wants(topic):
        return b""
    properties = decode_properties(record.properties)
    return filters.bitmap(topic, properties, record.store_timestamp_ms)
