"""Mistakes of consumer groups' members, noticed from their heartbeats.

    disagreement   members of one group subscribe to different topics, or by different expressions.
                   The last heartbeat wins (RocketMQ's rule), so each member is given messages that
                   it did not ask for, and what it wanted is passed over for the whole group.
    shared id      two clients say one client id. Queues are shared out by id: both take the same
                   ones, each message is consumed twice, and each one's leaving ends the other.

One client may have a connection to every node, and more while it reconnects; so an id is shared
when two connections *of one way in* (directly to this node, or through one follower) are both
heard again after the other one was. Nothing is refused: both are warned about, a shared id when it
begins, a disagreement also once in WARN_SECONDS for as long as it lasts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.protocol.heartbeat import ConsumerData

WARN_SECONDS = 60.0
WARNINGS_MAX = 100  # that nobody has taken yet
SHOWN_MAX = 80  # characters of an expression in a warning

Expressions = Mapping[str, tuple[str, str]]
"""Topic → filter language and expression."""


@dataclass(slots=True)
class _Heard:
    first: float
    last: float
    address: str
    again: float = -1.0  # last time that it was heard after another one had come


@dataclass(slots=True)
class _Group:
    said: dict[str, Expressions] = field(default_factory=dict)
    warned_at: float = -WARN_SECONDS
    disagrees: bool = False


class GroupWatch:
    """Bounded by the registry's limits: it is told of accepted heartbeats, and of leaving."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._heard: dict[tuple[str, str], dict[object, _Heard]] = {}
        self._ids: dict[object, set[tuple[str, str]]] = {}
        self._warned: set[str] = set()
        self._warnings: list[str] = []

    @property
    def disagreeing(self) -> list[str]:
        """Groups of members with different subscriptions now."""
        return sorted(name for name, group in self._groups.items() if group.disagrees)

    @property
    def shared(self) -> list[str]:
        """Client ids that more than one client uses now."""
        return sorted({key[0] for key, heard in self._heard.items() if _is_shared(heard)})

    def take_warnings(self) -> list[str]:
        """Sentences for the log, each once."""
        taken, self._warnings = self._warnings, []
        return taken

    # ---- what happened ---------------------------------------------------------------------------

    def subscribed(self, client_id: str, data: ConsumerData, now: float) -> None:
        """Note the subscriptions in a member's heartbeat."""
        group = self._groups.setdefault(data.group, _Group())
        wants = {s.topic: (s.expression_type, s.expression) for s in data.subscriptions}
        if group.said.get(client_id) != wants:
            group.said[client_id] = wants
            self._compare(group)
        if group.disagrees and now - group.warned_at >= WARN_SECONDS:
            group.warned_at = now
            self._warn(_difference(data.group, group.said, client_id))

    def heard(self, client_id: str, address: str, via: str, channel: object, now: float) -> None:
        """A client was heard on a connection. `via`: the peer that passed it on, "" for none."""
        key = (client_id, via)
        on = self._heard.setdefault(key, {})
        mine = on.get(channel)
        if mine is None:
            on[channel] = _Heard(now, now, address)
            self._ids.setdefault(channel, set()).add(key)
            return
        if any(mine.first <= other.last for other in on.values() if other is not mine):
            mine.again = now
        mine.last = now
        if _is_shared(on) and client_id not in self._warned:
            self._warned.add(client_id)
            places = " and ".join(sorted(one.address for one in on.values() if one.again >= 0))
            self._warn(
                f"client id {client_id} is used by several clients at once, {places}: they take "
                "each other's queues and consume messages twice; give each an instance name of "
                "its own"
            )

    def left(self, client_id: str, group: str) -> None:
        """A client is no longer a member of a consumer group."""
        found = self._groups.get(group)
        if found is None or found.said.pop(client_id, None) is None:
            return
        if found.said:
            self._compare(found)
        else:
            del self._groups[group]

    def closed(self, channel: object) -> None:
        """A connection ended."""
        for key in self._ids.pop(channel, ()):
            on = self._heard[key]
            on.pop(channel, None)
            if not on:
                del self._heard[key]
            if not _is_shared(on):
                self._warned.discard(key[0])

    # ---- inside ----------------------------------------------------------------------------------

    def _compare(self, group: _Group) -> None:
        first, *others = group.said.values()
        disagrees = any(wants != first for wants in others)
        if disagrees and not group.disagrees:
            group.warned_at = -WARN_SECONDS
        group.disagrees = disagrees

    def _warn(self, sentence: str) -> None:
        if len(self._warnings) < WARNINGS_MAX:
            self._warnings.append(sentence)


def _is_shared(heard: Mapping[object, _Heard]) -> bool:
    """Two connections of which each was heard again after the other one had come."""
    return sum(one.again >= 0 for one in heard.values()) > 1


def _difference(group: str, said: Mapping[str, Expressions], client_id: str) -> str:
    """A sentence about a member with other subscriptions than `client_id`, and the topics."""
    mine = said[client_id]
    other = next(name for name, wants in said.items() if wants != mine)
    topics = sorted(
        topic for topic in {*mine, *said[other]} if mine.get(topic) != said[other].get(topic)
    )
    return (
        f"members of consumer group {group} disagree about {topics[0]}: {client_id} wants "
        f"{_shown(mine.get(topics[0]))}, {other} {_shown(said[other].get(topics[0]))}; messages "
        "are lost to the group, give all of its members the same subscriptions"
    )


def _shown(wanted: tuple[str, str] | None) -> str:
    return "nothing of it" if wanted is None else f"{wanted[1][:SHOWN_MAX]!r}"
