"""Client registrations: who is a member, and who hears of changes.

Source: docs/spec/remoting.md 2.4, 4.5.
"""

from __future__ import annotations

import pytest

from cluster.core import groups
from cluster.core.groups import Change, ClientInfo, ClientRegistry, RegistryFull
from cluster.protocol.frames import Frame
from cluster.protocol.heartbeat import ConsumerData, Subscription


class Channel:
    is_paused = False

    def answer(self, frame: Frame) -> None:
        raise AssertionError("the registry itself tells nobody")


def consumer(
    group: str = "CG", expression: str = "*", version: int = 1, **more: str
) -> ConsumerData:
    return ConsumerData(group, (Subscription.of_tags("T", expression, version),), **more)  # type: ignore[arg-type]


def beat(
    registry: ClientRegistry,
    client: str,
    channel: Channel,
    *consumers: ConsumerData,
    now: float = 0,
) -> Change:
    return registry.heartbeat(ClientInfo(client), ("PG",), consumers, channel, now)


def test_a_new_member_is_announced_and_a_repeated_heartbeat_is_not() -> None:
    registry, channel = ClientRegistry(), Channel()
    assert beat(registry, "c1", channel, consumer()).notify == ("CG",)
    assert beat(registry, "c1", channel, consumer(version=9)).notify == ()
    assert beat(registry, "c2", Channel(), consumer()).notify == ("CG",)
    assert registry.consumer_ids("CG") == ["c1", "c2"]


def test_a_changed_subscription_is_announced() -> None:
    registry, channel = ClientRegistry(), Channel()
    beat(registry, "c1", channel, consumer(expression="A"))
    assert beat(registry, "c1", channel, consumer(expression="A || B", version=2)).notify == ("CG",)
    group = registry.consumer_group("CG")
    assert group is not None
    assert len(group.subscriptions["T"].codes) == 2


def test_an_older_subscription_does_not_replace_a_newer_one() -> None:
    registry = ClientRegistry()
    beat(registry, "c1", Channel(), consumer(expression="new", version=5))
    beat(registry, "c2", Channel(), consumer(expression="old", version=4))
    group = registry.consumer_group("CG")
    assert group is not None
    assert group.subscriptions["T"].expression == "new"


def test_broadcasting_groups_hear_nothing() -> None:
    registry = ClientRegistry()
    change = beat(registry, "c1", Channel(), consumer(message_model="BROADCASTING"))
    assert change == Change()


def test_a_client_stays_while_one_of_its_connections_lives() -> None:
    registry, direct, through_follower = ClientRegistry(), Channel(), Channel()
    beat(registry, "c1", direct, consumer(), now=1)
    beat(registry, "c1", through_follower, consumer(), now=2)
    beat(registry, "c2", Channel(), consumer(), now=2)
    assert registry.channels("CG")[0] is through_follower, "the one heard last"
    assert registry.channel_closed(through_follower) == Change()
    assert registry.consumer_ids("CG") == ["c1", "c2"]
    assert registry.channels("CG")[0] is direct
    assert registry.channel_closed(direct) == Change(notify=("CG",))
    assert registry.consumer_ids("CG") == ["c2"]


def test_the_last_member_leaves_an_empty_group() -> None:
    registry, channel = ClientRegistry(), Channel()
    beat(registry, "c1", channel, consumer())
    assert registry.unregister("c1", "PG", "CG", channel) == Change(emptied=("CG",))
    assert registry.consumer_group("CG") is None
    assert list(registry.producer_groups()) == []
    assert registry.channel_closed(channel) == Change()


def test_silent_clients_expire() -> None:
    registry = ClientRegistry()
    beat(registry, "old", Channel(), consumer(), now=0)
    beat(registry, "new", Channel(), consumer(), now=100)
    assert registry.expire(119) == Change()
    assert registry.expire(121) == Change(notify=("CG",))
    assert registry.consumer_ids("CG") == ["new"]


def test_unregistering_somebody_unknown_changes_nothing() -> None:
    registry = ClientRegistry()
    assert registry.unregister("x", "", "nobody", Channel()) == Change()
    assert registry.consumer_ids("nobody") == []


def test_registrations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MEMBERS_MAX", 3)
    registry = ClientRegistry()
    beat(registry, "c1", Channel(), consumer())
    with pytest.raises(RegistryFull, match="3 client registrations"):
        beat(registry, "c2", Channel(), consumer())
    assert registry.consumer_ids("CG") == ["c1"]


def test_a_producing_client_is_found_by_its_id_while_any_connection_lives() -> None:
    registry, first, second = ClientRegistry(), Channel(), Channel()
    assert registry.producer_channel("p") is None
    for at, channel in enumerate((first, second)):
        registry.heartbeat(ClientInfo("p"), ("PG", "CLIENT_INNER_PRODUCER"), (), channel, at)
    assert registry.producer_channel("p") is second
    assert [member.best_channel() for member in registry.producers("PG")] == [second]
    registry.channel_closed(second)
    assert registry.producer_channel("p") is first
    registry.unregister("p", "PG", "", first)
    assert registry.producers("PG") == []
    assert registry.producer_channel("p") is first, "it is in its other group"
    registry.channel_closed(first)
    assert registry.producer_channel("p") is None
    beat(registry, "c", first, consumer())
    registry.heartbeat(ClientInfo("x"), (), (consumer("CG2"),), second, 0)
    assert registry.producer_channel("x") is None, "it only consumes"
