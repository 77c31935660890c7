"""Connected clients, and the groups that must hear of a change (docs/spec/remoting.md 2.4, 4.5).

    heartbeat(client, groups, channel) ─► Change: groups whose members or subscriptions changed
    unregister / channel_closed / expire ─► the same

A *channel* is one connection; a client may have several (it heartbeats every replica, and followers
pass heartbeats on to the leader). A client is a member while any of its channels lives. Soft state:
never in the log, filled again within one heartbeat. Times are seconds of any monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from cluster.core.group_watch import GroupWatch
from cluster.protocol.frames import Frame
from cluster.protocol.heartbeat import ConsumerData, Subscription

CLIENT_EXPIRY_SECONDS = 120.0  # four missed heartbeats (docs/spec/remoting.md 4.4)
MEMBERS_MAX = 100_000  # registrations of all groups; each costs about 1 KiB

BROADCASTING = "BROADCASTING"


class Channel(Protocol):
    """One connection; compared by identity. `is_paused`: the client does not read."""

    @property
    def is_paused(self) -> bool:
        """True while the client does not read."""
        ...

    def answer(self, frame: Frame) -> None:
        """Send the client one frame."""
        ...


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """The client that sent a heartbeat."""

    client_id: str
    address: str = ""
    language: str = "JAVA"
    version: int = 0
    via: str = ""  # the peer that passed the heartbeat on
    account: str = ""  # access key of the heartbeat


@dataclass(slots=True)
class Member:
    """One client in one group; `channels` maps each live connection to when it was last heard."""

    info: ClientInfo
    channels: dict[Channel, float] = field(default_factory=dict)

    def best_channel(self) -> Channel:
        """The connection heard last."""
        return max(self.channels, key=self.channels.__getitem__)


@dataclass(slots=True)
class ConsumerGroup:
    """Members and the newest settings; the last heartbeat wins, as in RocketMQ."""

    registration: ConsumerData
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)

    @property
    def notifies(self) -> bool:
        """False for broadcasting groups: their members do not share queues, so none rebalances."""
        return self.registration.message_model != BROADCASTING

    def subscribe(self, data: ConsumerData) -> bool:
        """Take over a heartbeat's subscriptions; did topics or expressions change?

        The last writer wins, but a subscription is not replaced by an older version of itself.
        """
        self.registration = data
        newest: dict[str, Subscription] = {}
        for wanted in data.subscriptions:
            known = self.subscriptions.get(wanted.topic)
            newest[wanted.topic] = (
                known if known is not None and known.version > wanted.version else wanted
            )
        changed = _expressions(newest) != _expressions(self.subscriptions)
        self.subscriptions = newest
        return changed


@dataclass(frozen=True, slots=True)
class Change:
    """Consumer groups that should rebalance, and groups without members now."""

    notify: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()


class RegistryFull(Exception):
    """More registrations than MEMBERS_MAX; try again when clients have left."""


class ClientRegistry:
    """Producers and consumers by group. All methods are cheap and in memory."""

    def __init__(self) -> None:
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[str, Member]] = {}
        self._producing: dict[str, set[str]] = {}
        self._places: dict[Channel, set[tuple[bool, str, str]]] = {}
        self._count = 0
        self.watch = GroupWatch()

    def heartbeat(
        self,
        info: ClientInfo,
        producers: tuple[str, ...],
        consumers: tuple[ConsumerData, ...],
        channel: Channel,
        now: float,
    ) -> Change:
        """Register or refresh a client. Raises RegistryFull before any change."""
        if self._count + len(producers) + len(consumers) > MEMBERS_MAX:
            raise RegistryFull(f"{MEMBERS_MAX} client registrations are held; try again later")
        self.watch.heard(info.client_id, info.address, info.via, channel, now)
        for group in producers:
            self._join(False, group, self._producers.setdefault(group, {}), info, channel, now)
        notify = []
        for registration in consumers:
            found = self._consumers.get(registration.group)
            if found is None:
                found = self._consumers[registration.group] = ConsumerGroup(registration)
            changed = found.subscribe(registration)
            self.watch.subscribed(info.client_id, registration, now)
            joined = self._join(True, registration.group, found.members, info, channel, now)
            if (joined or changed) and found.notifies:
                notify.append(registration.group)
        return Change(notify=tuple(notify))

    def unregister(
        self, client_id: str, producer_group: str, consumer_group: str, channel: Channel
    ) -> Change:
        """Code 35: the client leaves these groups at once, on all of its connections."""
        left = []
        if producer_group:
            self._leave(False, producer_group, client_id, None)
        if consumer_group and self._leave(True, consumer_group, client_id, None):
            left.append(consumer_group)
        return self._change(left)

    def channel_closed(self, channel: Channel) -> Change:
        """A connection ended; clients without another one leave their groups."""
        left = [
            group
            for is_consumer, group, client_id in sorted(self._places.get(channel, ()))
            if self._leave(is_consumer, group, client_id, channel) and is_consumer
        ]
        self._places.pop(channel, None)
        self.watch.closed(channel)
        return self._change(left)

    def expire(self, now: float) -> Change:
        """Drop connections not heard for CLIENT_EXPIRY_SECONDS."""
        left = []
        oldest = now - CLIENT_EXPIRY_SECONDS
        for channel, places in list(self._places.items()):
            for is_consumer, group, client_id in sorted(places):
                member = self._members(is_consumer, group)[client_id]
                if member.channels[channel] >= oldest:
                    continue
                if self._leave(is_consumer, group, client_id, channel) and is_consumer:
                    left.append(group)
        return self._change(left)

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """The members of a group; None for a group without members."""
        return self._consumers.get(group)

    def accounts_of(
        self,
        client_id: str,
        consumer_groups: Iterable[str],
        *,
        produces: bool,
        channel: Channel | None = None,
    ) -> set[str]:
        """Accounts that heartbeat with that id in these groups, or, when it produces, in any.

        A registration without an account that came by `channel` is left out: it is the same client,
        from before there were accounts.
        """
        groups = self._producing.get(client_id, set()) if produces else set()
        tables = [self._producers[group] for group in groups]
        tables += [self._consumers[g].members for g in consumer_groups if g in self._consumers]
        found = (table[client_id] for table in tables if client_id in table)
        return {
            one.info.account for one in found if one.info.account or channel not in one.channels
        }

    def consumer_ids(self, group: str) -> list[str]:
        """Member list of code 38; empty without members."""
        found = self._consumers.get(group)
        return list(found.members) if found else []

    def channels(self, group: str) -> list[Channel]:
        """One connection per member of a consumer group: where request code 40 goes."""
        found = self._consumers.get(group)
        return [member.best_channel() for member in found.members.values()] if found else []

    def producer_channel(self, client_id: str) -> Channel | None:
        """The connection heard last of a producing client, over all its groups."""
        heard = [
            (at, channel)
            for group in self._producing.get(client_id, ())
            for channel, at in self._producers[group][client_id].channels.items()
        ]
        return max(heard, key=lambda found: found[0])[1] if heard else None

    def producers(self, group: str) -> list[Member]:
        """Members of a producer group: where request code 39 may go."""
        return list(self._producers.get(group, {}).values())

    def consumer_groups(self) -> Iterator[tuple[str, ConsumerGroup]]:
        """Name and members of each group of consumers."""
        return iter(self._consumers.items())

    def producer_groups(self) -> Iterator[tuple[str, dict[str, Member]]]:
        """Name of each group of producers, and its members by client id."""
        return iter(self._producers.items())

    def _members(self, is_consumer: bool, group: str) -> dict[str, Member]:
        return self._consumers[group].members if is_consumer else self._producers[group]

    def _join(
        self,
        is_consumer: bool,
        group: str,
        members: dict[str, Member],
        info: ClientInfo,
        channel: Channel,
        now: float,
    ) -> bool:
        member = members.get(info.client_id)
        joined = member is None
        if member is None:
            member = members[info.client_id] = Member(info)
            self._count += 1
            if not is_consumer:
                self._producing.setdefault(info.client_id, set()).add(group)
        member.info = info
        member.channels[channel] = now
        self._places.setdefault(channel, set()).add((is_consumer, group, info.client_id))
        return joined

    def _leave(
        self, is_consumer: bool, group: str, client_id: str, channel: Channel | None
    ) -> bool:
        """Take one connection (None: all) of a client out of a group; True when it left."""
        if group not in (self._consumers if is_consumer else self._producers):
            return False
        members = self._members(is_consumer, group)
        member = members.get(client_id)
        if member is None:
            return False
        place = (is_consumer, group, client_id)
        for gone in [channel] if channel is not None else list(member.channels):
            member.channels.pop(gone, None)
            self._forget_place(gone, place)
        if member.channels:
            return False
        del members[client_id]
        self._count -= 1
        if is_consumer:
            self.watch.left(client_id, group)
        else:
            self._forget_producer(group, client_id)
        return True

    def _forget_producer(self, group: str, client_id: str) -> None:
        if not self._producers[group]:
            del self._producers[group]
        groups = self._producing[client_id]
        groups.discard(group)
        if not groups:
            del self._producing[client_id]

    def _forget_place(self, channel: Channel, place: tuple[bool, str, str]) -> None:
        places = self._places.get(channel)
        if places is not None:
            places.discard(place)
            if not places:
                del self._places[channel]

    def _change(self, left: list[str]) -> Change:
        notify, emptied = [], []
        for group in dict.fromkeys(left):
            found = self._consumers[group]
            if not found.members:
                del self._consumers[group]
                emptied.append(group)
            elif found.notifies:
                notify.append(group)
        return Change(tuple(notify), tuple(emptied))


def _expressions(subscriptions: dict[str, Subscription]) -> dict[str, tuple[str, str]]:
    """Topic → language and text; the version number is left out."""
    return {
        topic: (wanted.expression_type, wanted.expression)
        for topic, wanted in subscriptions.items()
    }
