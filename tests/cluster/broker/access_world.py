"""A guarded group of brokers with something to see in it, and who tries: one client per account."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from cluster.broker.node import BrokerNode
from cluster.core.access.signature import sign
from cluster.core.pop.handles import Handle
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import FLAG_ONEWAY, Frame, encode_frame, response
from cluster.protocol.heartbeat import ConsumerData, HeartbeatData, Subscription, encode_heartbeat
from cluster.protocol.offset_id import decode_offset_id

from .harness import Brokers, RawClient, until, without_refusals
from .test_pop import handles

TOPIC, OTHER = "orders", "other"
GROUP, OTHERS = "readers", "others"
PRODUCERS, FREE = "payers", "free-producers"
REPLIES = "DefaultCluster_REPLY_TOPIC"
VICTIM = "victim@1"
ACCOUNTS = f"""
accounts:
- accessKey: account-none
  secretKey: secret-of-account-none
- accessKey: account-else
  secretKey: secret-of-account-else
  topicPerms: [{OTHER}=PUB|SUB]
  groupPerms: [{OTHERS}=PUB|SUB]
- accessKey: account-read
  secretKey: secret-of-account-read
  topicPerms: [{TOPIC}=SUB]
  groupPerms: [{GROUP}=SUB]
- accessKey: account-write
  secretKey: secret-of-account-write
  topicPerms: [{TOPIC}=PUB]
- accessKey: account-full
  secretKey: secret-of-account-full
  topicPerms: [{TOPIC}=PUB|SUB, {REPLIES}=PUB]
  groupPerms: [{GROUP}=SUB, {PRODUCERS}=PUB]
  takeOverProducers: [handed/*]
- accessKey: account-admin
  secretKey: secret-of-account-admin
  admin: true
"""
SETTINGS = {"cluster_secret": "one for all of this test", "transaction_timeout_ms": 600_000}


_numbers = itertools.count(1)


class Ask(NamedTuple):
    """One request, before it is signed."""

    ext: Mapping[str, Any] = {}
    body: bytes = b""


class Notices(list[Frame]):
    """What the broker asks a client; each question is answered at once."""

    def __init__(self, client: RawClient) -> None:
        super().__init__()
        self._client = client

    def append(self, frame: Frame) -> None:
        super().append(frame)
        if not frame.is_oneway:
            self._client.write(encode_frame(response(frame, 0, {}, b'{"messageQueueTable":{}}')))


class Signing:
    """A client of one account; `key` "" signs nothing."""

    def __init__(self, client: RawClient, key: str) -> None:
        self.client, self.key = client, key
        #: It has asked something since the world was last settled.
        self.has_asked = False
        client.notices = Notices(client)

    async def ask(self, code: int, ask: Ask) -> Frame:
        return await self.client.ask(code, self._signed(ask), ask.body)

    def tell(self, code: int, ask: Ask) -> None:
        """Ask oneway: what came of it can be seen when the world is settled."""
        self.client.ask(code, self._signed(ask), ask.body, flag=FLAG_ONEWAY)

    def _signed(self, ask: Ask) -> dict[str, str]:
        self.has_asked = True
        ext = {name: str(value) for name, value in ask.ext.items()}
        ext["zz"] = str(next(_numbers))  # a signature of its own, whatever is asked twice
        if self.key:
            ext["AccessKey"] = self.key
            ext["Signature"] = sign(ext, ask.body, f"secret-of-{self.key}", 479)
        return ext


class World:
    """`entry`: the node that clients ask; `leader`: where what they did is looked for."""

    def __init__(self, brokers: Brokers, leader: BrokerNode, entry: BrokerNode) -> None:
        self.brokers, self.leader, self.entry = brokers, leader, entry
        self.numbers = itertools.count(1)
        self.callers: dict[str, Signing] = {}

    async def open(self) -> World:
        for who in ("anon", "none", "else", "read", "write", "full", "admin"):
            client = await self.brokers.client(self.entry)
            self.callers[who] = Signing(client, "" if who == "anon" else f"account-{who}")
        self.boss = Signing(await self.brokers.client(self.leader), "account-admin")
        self.victim = Signing(await self.brokers.client(self.leader), "account-full")
        self.victim_at_entry = Signing(await self.brokers.client(self.entry), "account-full")
        for topic in (TOPIC, OTHER):
            await self.admin(Code.UPDATE_AND_CREATE_TOPIC, new_topic(topic))
        for group in (GROUP, OTHERS):
            await self.admin(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, new_group(group))
        self.position = 0
        await self.sent(TOPIC)
        await self.sent(OTHER)
        await self.sent(f"%RETRY%{GROUP}")
        await self.sent(TOPIC, properties="TRAN_MSG\x01true\x02PGROUP\x01g\x02", f=4)
        await self.join()
        commit = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": 0}
        await self.admin(Code.UPDATE_CONSUMER_OFFSET, Ask(commit))
        return self

    async def admin(self, code: int, ask: Ask) -> Frame:
        answer = await self.boss.ask(code, ask)
        assert answer.code == 0, (code, ask, answer.remark)
        return answer

    async def sent(self, topic: str, body: bytes = b"to be kept secret", **more: Any) -> Frame:
        """Its address in `position`, and everything up to it can be read."""
        answer = await self.admin(Code.SEND_MESSAGE_V2, send(topic, body, **more))
        self.position = decode_offset_id(answer.ext["msgId"])[2]
        return answer

    async def join(self) -> None:
        """The victim consumes and produces."""
        await self.joined(VICTIM, (PRODUCERS,), (GROUP,))

    async def joined(
        self, client_id: str, producers: tuple[str, ...], consumers: tuple[str, ...]
    ) -> None:
        """As clients do, on every node that they know."""
        for client in (self.victim_at_entry, self.victim):
            answer = await client.ask(Code.HEART_BEAT, heartbeat(client_id, producers, consumers))
            assert answer.code == 0, answer.remark

    async def popped(self, group: str = GROUP, topic: str = TOPIC) -> Handle:
        """A handle of a message that the group has just been given."""
        await self.sent(topic)
        answer = await self.admin(Code.POP_MESSAGE, pop(topic, group))
        return handles(answer)[0]

    async def settled(self) -> None:
        """The leader has done with what came; offsets that were committed are in the log.

        Callers that have asked nothing since it was settled before have nothing on its way.
        """
        asked = [who for who in self.callers.values() if who.has_asked]
        # What comes after it on a connection is served after it.
        for client in (*asked, self.victim, self.victim_at_entry):
            await client.client.ask(9999)
        for group in (GROUP, OTHERS):  # logs what is outstanding
            ask = Ask({"consumerGroup": group, "topic": TOPIC, "queueId": 0})
            await self.boss.ask(Code.QUERY_CONSUMER_OFFSET, ask)
        if self.entry is not self.leader:
            for who in asked:
                await who.ask(Code.GET_MAX_OFFSET, Ask({"topic": TOPIC, "queueId": 0}))
        for who in asked:
            who.has_asked = False
        await until(lambda: self.leader.parts.log.applied == self._last())

    def _last(self) -> int:
        return self.leader.parts.log.store.last.index

    def picture(self) -> Any:
        """Everything that a request may change."""
        services = self.leader.parts
        registry = services.registry
        without_refusals(services)
        return (
            self._last(),
            sorted(
                (name, member.info.client_id, member.info.account, len(member.channels))
                for name, members in registry.producer_groups()
                for member in members.values()
            ),
            sorted(
                (name, sorted(group.subscriptions), sorted(group.members))
                for name, group in registry.consumer_groups()
            ),
            [services.offsets.newest(group, TOPIC, 0) for group in (GROUP, OTHERS)],
            services.pop.waits.count,
            self.leader.parts.polls.count,
        )

    def told(self) -> int:
        """Questions and notices that clients have had."""
        return len(self.victim.client.notices) + len(self.victim_at_entry.client.notices)


def send(topic: str, body: bytes = b"x", /, **more: Any) -> Ask:
    ext = {
        "a": FREE, "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1700000000123, "h": 0,
        "i": more.pop("properties", ""), "j": 0, "k": "false", "m": "false",
    }  # fmt: skip
    return Ask({**ext, **more}, body)


_NAMES = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
    "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    "j": "reconsumeTimes", "k": "unitMode", "m": "batch",
}  # fmt: skip


def by_names(ask: Ask, **more: Any) -> Ask:
    """As code 10 and 324 have it."""
    return Ask({**{_NAMES[letter]: value for letter, value in ask.ext.items()}, **more}, ask.body)


def pull(topic: str, group: str, flag: int = 4, commit: int = 0) -> Ask:
    return Ask(
        {
            "consumerGroup": group, "topic": topic, "queueId": 0, "queueOffset": 0,
            "maxMsgNums": 32, "sysFlag": flag, "commitOffset": commit,
            "suspendTimeoutMillis": 0, "subVersion": 0, "subscription": "*",
        }
    )  # fmt: skip


def pop(topic: str, group: str) -> Ask:
    return Ask(
        {
            "consumerGroup": group, "topic": topic, "queueId": 0, "maxMsgNums": 32,
            "invisibleTime": 3_600_000, "pollTime": 0, "bornTime": 0, "initMode": 0,
            "order": "false",
        }
    )  # fmt: skip


def heartbeat(
    client_id: str,
    producers: tuple[str, ...],
    consumers: tuple[str, ...],
    topic: str = TOPIC,
) -> Ask:
    rows = tuple(ConsumerData(group, (Subscription.of_tags(topic, "*", 1),)) for group in consumers)
    return Ask(body=encode_heartbeat(HeartbeatData(client_id, producers, rows)))


def new_topic(name: str) -> Ask:
    return Ask(
        {
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1,
            "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
        }
    )  # fmt: skip


def new_group(name: str) -> Ask:
    return Ask(body=json.dumps({"groupName": name}).encode())
