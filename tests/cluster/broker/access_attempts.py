"""How each row of access_table.py is tried: what is made ready by an admin, and the request."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cluster.core.pop.handles import Handle
from cluster.core.topics import ACCOUNTS_TOPIC
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.headers import SendBackRequest, encode
from cluster.protocol.offset_id import encode_offset_id
from dledger.core.types import Index

from .access_world import (
    FREE,
    GROUP,
    OTHER,
    OTHERS,
    PRODUCERS,
    REPLIES,
    TOPIC,
    VICTIM,
    Ask,
    World,
    by_names,
    heartbeat,
    new_group,
    new_topic,
    pop,
    pull,
    send,
)

Attempt = Callable[[World], Awaitable[Ask]]
ATTEMPTS: dict[tuple[int, str], Attempt] = {}
RETRY = f"%RETRY%{GROUP}"
READ = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0}


def attempt(code: int, what: str) -> Callable[[Attempt], Attempt]:
    def keep(function: Attempt) -> Attempt:
        assert (code, what) not in ATTEMPTS, what
        ATTEMPTS[code, what] = function
        return function

    return keep


def always(code: int, what: str, ext: Mapping[str, Any] | None = None, body: bytes = b"") -> None:
    """A request that needs nothing made ready."""

    async def ask(world: World) -> Ask:
        return Ask(ext or {}, body)

    attempt(code, what)(ask)


def same(code: int, what: str, ask: Ask) -> None:
    always(code, what, ask.ext, ask.body)


def body(**value: Any) -> bytes:
    return json.dumps(value).encode()


# ---- producers --------------------------------------------------------------------------------

same(10, "send", by_names(send(TOPIC)))
same(10, "send, another topic under b", by_names(send(TOPIC), b=OTHER))
same(310, "send", send(TOPIC))
same(310, "send, another topic by name", send(TOPIC, topic=OTHER))
same(310, "send as the owned producer group", send(TOPIC, a=PRODUCERS))
ASKED = f"TRAN_MSG\x01true\x02PGROUP\x01{PRODUCERS}\x02"
same(310, "half asked about in the owned group", send(TOPIC, properties=ASKED, f=4))
same(310, "send to the retry topic", send(RETRY))
# One message of a batch: sizes, magic, CRC, flag, body, properties (docs/spec/remoting.md 2.2).
ITEM = (23).to_bytes(4, "big") + bytes(12) + (1).to_bytes(4, "big") + b"x" + (0).to_bytes(2, "big")
same(320, "batch", send(TOPIC, ITEM, m="true"))
same(320, "batch, another topic by name", send(TOPIC, ITEM, m="true", topic=OTHER))
REPLY = send(REPLIES, properties=f"REPLY_TO_CLIENT\x01{VICTIM}\x02")
same(324, "reply", by_names(REPLY))
same(325, "reply", REPLY)
same(325, "reply, another topic by name", Ask({**REPLY.ext, "topic": OTHER}, REPLY.body))


@attempt(370, "recall")
async def _recall(world: World) -> Ask:
    later = f"TIMER_DELAY_SEC\x01600\x02UNIQ_KEY\x01K{next(world.numbers)}\x02"
    sent = await world.sent(TOPIC, properties=later)
    return Ask({"topic": TOPIC, "recallHandle": sent.ext["recallHandle"]})


def taking_over(what: str, name: str) -> None:
    @attempt(31016, what)
    async def ask(world: World) -> Ask:
        producer = f"{name}/{next(world.numbers)}"
        numbers = f"__PID\x01{producer}\x02__SEQ\x010\x02"
        owner = world.callers["write"]
        assert (await owner.ask(Code.SEND_MESSAGE_V2, send(TOPIC, properties=numbers))).code == 0
        return Ask({"producerId": producer})


taking_over("take over a producer id", "handed")
taking_over("take over another producer id", "kept")


# ---- consumers --------------------------------------------------------------------------------

same(11, "pull", pull(TOPIC, GROUP))
same(11, "pull the retry topic", pull(RETRY, GROUP))
same(11, "pull the retry topic as another", pull(RETRY, OTHERS))
same(11, "pull as another group", pull(TOPIC, OTHERS))
same(11, "pull the half messages", pull("RMQ_SYS_TRANS_HALF_TOPIC", OTHERS))
same(361, "lite pull", pull(TOPIC, GROUP))


@attempt(11, "pull with an offset to commit")
async def _pull_and_commit(world: World) -> Ask:
    for _ in range(2):
        await world.sent(TOPIC)
    offsets = world.leader.parts.offsets
    return pull(TOPIC, GROUP, 5, commit=(offsets.newest(GROUP, TOPIC, 0) or 0) + 1)


def popping(code: int, what: str, topic: str, group: str) -> None:
    @attempt(code, what)
    async def ask(world: World) -> Ask:
        await world.sent(topic)
        return pop(topic, group)


popping(200050, "pop", TOPIC, GROUP)
popping(200050, "pop the retry topic", RETRY, GROUP)
popping(200050, "pop the retry topic as another", RETRY, OTHERS)
popping(200052, "peek", TOPIC, GROUP)
popping(200052, "peek the retry topic as another", RETRY, OTHERS)


def _handle(handle: Handle, **more: Any) -> Ask:
    return Ask({**READ, "extraInfo": str(handle), "offset": handle.offset, **more})


def _row(handle: Handle, group: str, topic: str) -> dict[str, Any]:
    bits = handle.offset - handle.start
    raw = bytearray(bits // 8 + 1)
    raw[bits // 8] |= 1 << bits % 8
    return {
        "c": group, "t": topic, "r": handle.marker, "so": handle.start, "q": handle.queue,
        "rq": handle.revive_queue, "pt": handle.pop_ms, "it": handle.invisible_ms,
        "b": base64.b64encode(bytes(raw)).decode(),
    }  # fmt: skip


@attempt(200051, "acknowledge")
async def _ack(world: World) -> Ask:
    return _handle(await world.popped())


@attempt(200053, "hide for longer")
async def _hide(world: World) -> Ask:
    return _handle(await world.popped(), invisibleTime=3_600_000)


@attempt(200151, "acknowledge several")
async def _batch_ack(world: World) -> Ask:
    return Ask(body=body(acks=[_row(await world.popped(), GROUP, TOPIC)]))


@attempt(200151, "acknowledge one's own and others'")
async def _batch_ack_of_two(world: World) -> Ask:
    own = _row(await world.popped(OTHERS, OTHER), OTHERS, OTHER)
    return Ask(body=body(acks=[own, _row(await world.popped(), GROUP, TOPIC)]))


always(200054, "is there a message", {**READ, "pollTime": 0})
always(
    200054,
    "is there a retry of another group",
    {**READ, "topic": RETRY, "consumerGroup": OTHERS, "pollTime": 0},
)
always(200055, "how many pops wait", READ)
always(200056, "roll pops back")


def coming_back(what: str, group: str, **more: Any) -> None:
    @attempt(36, what)
    async def ask(world: World) -> Ask:
        await world.sent(TOPIC)
        return Ask({**encode(SendBackRequest(world.position, group, 18)), **more})


coming_back("back to the broker", GROUP)
coming_back("a foreign message comes back", OTHERS)
coming_back("back, another group by name", GROUP, consumerGroup=OTHERS)

always(14, "the group's offset", READ)
always(29, "offset by time", {**READ, "timestamp": 0})
always(30, "next offset", READ)
always(31, "first offset", READ)
always(32, "oldest time", READ)


@attempt(15, "commit an offset")
async def _commit(world: World) -> Ask:
    newest = world.leader.parts.offsets.newest(GROUP, TOPIC, 0) or 0
    await world.sent(TOPIC)
    return Ask({**READ, "commitOffset": newest + 1})


@attempt(33, "message by its address")
async def _view(world: World) -> Ask:
    await world.sent(TOPIC)
    return Ask({"offset": world.position})


@attempt(33, "message, another topic named")
async def _view_another(world: World) -> Ask:
    await world.sent(TOPIC)
    return Ask({"offset": world.position, "topic": OTHER})


@attempt(12, "messages by key")
async def _query(world: World) -> Ask:
    key = f"K{next(world.numbers)}"
    await world.sent(TOPIC, properties=f"KEYS\x01{key}\x02")
    ext = {"topic": TOPIC, "key": key, "maxNum": 8, "beginTimestamp": 0, "endTimestamp": 1 << 60}
    return Ask(ext)


# ---- clients ----------------------------------------------------------------------------------


@attempt(34, "join the group")
async def _join(world: World) -> Ask:
    return heartbeat(f"member{next(world.numbers)}@1", (), (GROUP,))


@attempt(34, "produce for the owned group")
async def _produce(world: World) -> Ask:
    return heartbeat(f"producer{next(world.numbers)}@1", (PRODUCERS,), ())


@attempt(34, "take the client id of another")
async def _take_id(world: World) -> Ask:
    await world.join()
    return heartbeat(VICTIM, (f"group{next(world.numbers)}",), ())


def leaving(what: str, **ext: str) -> None:
    @attempt(35, what)
    async def ask(world: World) -> Ask:
        name = f"member{next(world.numbers)}@1"
        await world.joined(name, (PRODUCERS,), (GROUP,))
        return Ask({"clientID": name, **ext})


leaving("leave the group", consumerGroup=GROUP)
leaving("leave, another group by name", consumerGroup=GROUP, group=OTHERS)
leaving("stop another's producer", producerGroup=PRODUCERS)


def committing(what: str, group: str, **ext: str) -> None:
    @attempt(37, what)
    async def ask(world: World) -> Ask:
        half = f"TRAN_MSG\x01true\x02PGROUP\x01{group}\x02"
        sent = await world.sent(TOPIC, properties=half, f=4)
        services = world.leader.parts
        outcome = {
            "producerGroup": group,
            "tranStateTableOffset": services.transactions.read(world.position).queue_offset,
            "commitLogOffset": world.position,
            "commitOrRollback": 8,
            "msgId": sent.ext["msgId"],
        }
        return Ask({**outcome, **ext})


committing("commit a half", PRODUCERS)
committing("commit, the group is nobody's", FREE)
committing("commit, another topic named", FREE, topic=OTHER)
always(38, "who is in the group", {"consumerGroup": GROUP})
QUEUE = {"topic": TOPIC, "brokerName": "broker-a", "queueId": 0}


def locking(code: int, what: str, client: str) -> None:
    @attempt(code, what)
    async def ask(world: World) -> Ask:
        await world.join()
        name = client or f"member{next(world.numbers)}@1"
        locked = body(consumerGroup=GROUP, clientId=name, mqSet=[QUEUE])
        # Nobody has it before a lock; before an unlock, the one that it is taken from.
        table = world.leader.parts.state.locks
        owner = table.owner(GROUP, (TOPIC, 0))
        if owner:
            held = body(consumerGroup=GROUP, clientId=owner, mqSet=[QUEUE])
            await world.admin(Code.UNLOCK_BATCH_MQ, Ask(body=held))
        if code == Code.UNLOCK_BATCH_MQ:
            await world.admin(Code.LOCK_BATCH_MQ, Ask(body=locked))
        return Ask(body=locked)


locking(41, "lock queues", "")
locking(41, "lock in another's name", VICTIM)
locking(42, "unlock queues", VICTIM)
same(
    46,
    "check a subscription",
    Ask(body=body(group=GROUP, subscriptionData={"topic": TOPIC, "subString": "a || b"})),
)
same(
    400,
    "my queues",
    Ask(
        body=body(
            topic=TOPIC,
            consumerGroup=GROUP,
            clientId=VICTIM,
            strategyName="AVG",
            messageModel="CLUSTERING",
        )
    ),
)

# ---- administration ---------------------------------------------------------------------------

always(13, "end of the log")


@attempt(17, "create a topic")
async def _create_topic(world: World) -> Ask:
    return new_topic(f"made{next(world.numbers)}")


@attempt(18, "create topics")
async def _create_topics(world: World) -> Ask:
    row = {"topicName": f"made{next(world.numbers)}", "readQueueNums": 1, "writeQueueNums": 1}
    return Ask(body=body(topicConfigList=[{**row, "perm": 6}]))


@attempt(200, "create a group")
async def _create_group(world: World) -> Ask:
    return new_group(f"made{next(world.numbers)}")


@attempt(225, "create groups")
async def _create_groups(world: World) -> Ask:
    return Ask(body=body(groupConfigList=[{"groupName": f"made{next(world.numbers)}"}]))


@attempt(207, "delete a group")
async def _delete_group(world: World) -> Ask:
    name = f"made{next(world.numbers)}"
    await world.admin(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, new_group(name))
    return Ask({"groupName": name})


@attempt(215, "delete a topic")
async def _delete_topic(world: World) -> Ask:
    name = f"made{next(world.numbers)}"
    await world.admin(Code.UPDATE_AND_CREATE_TOPIC, new_topic(name))
    return Ask({"topic": name})


@attempt(323, "revive a half")
async def _revive(world: World) -> Ask:
    half = f"TRAN_MSG\x01true\x02PGROUP\x01{FREE}\x02"
    sent = await world.sent(TOPIC, properties=half, f=4)
    return Ask({"msgId": sent.ext["msgId"], "topic": TOPIC})


@attempt(309, "let a member consume")
async def _consume_directly(world: World) -> Ask:
    await world.join()
    sent = await world.sent(TOPIC)
    return Ask({"consumerGroup": GROUP, "clientId": VICTIM, "msgId": sent.ext["msgId"]})


def asking(code: int, what: str, ext: Mapping[str, Any]) -> None:
    @attempt(code, what)
    async def ask(world: World) -> Ask:
        await world.join()
        return Ask(ext)


asking(307, "ask a member about itself", {"consumerGroup": GROUP, "clientId": VICTIM})
asking(223, "ask members for offsets", {"topic": TOPIC, "group": GROUP})
asking(203, "who consumes", {"consumerGroup": GROUP})
asking(204, "who produces", {"producerGroup": PRODUCERS})
always(21, "all topics")
always(25, "broker settings", body=b"fileReservedTime=101\n")
always(26, "show broker settings")
always(28, "figures of the broker")
always(43, "all offsets")
always(201, "all groups")
always(202, "sizes of the topic", {"topic": TOPIC})
always(208, "lag of the group", {"consumerGroup": GROUP})
always(
    208,
    "lag of the group, another topic",
    {"consumerGroup": GROUP, "topicList": f"{TOPIC};{OTHER}"},
)
always(
    222,
    "reset offsets",
    {"topic": TOPIC, "group": GROUP, "timestamp": 0, "isForce": "true", "offset": 0, "queueId": 0},
)
always(300, "groups of the topic", {"topic": TOPIC})
always(303, "times of the group", {"topic": TOPIC, "group": GROUP})
always(305, "the broker's own topics")
always(306, "clean queues")
always(308, "smallest offsets", {"topic": TOPIC, "compareGroup": GROUP})
always(314, "clone offsets", {"srcGroup": GROUP, "destGroup": OTHERS, "topic": TOPIC})
always(315, "statistics", {"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC})
always(316, "clean topics")
always(317, "lag of all groups", {"isOrder": "false"})
always(321, "entries of a queue", {**READ, "index": 0, "count": 1})
always(328, "all producers")
always(343, "topics of the group", {"group": GROUP})
always(343, "topics, another group by name", {"consumerGroup": GROUP, "group": OTHERS})
always(345, "subscription of the group", {"group": GROUP, "topic": TOPIC})
always(351, "settings of the topic", {"topic": TOPIC})
always(352, "settings of the group", {"group": GROUP})
always(353, "forbid a group to read", {"group": OTHERS, "topic": OTHER, "readable": "true"})
same(
    401,
    "set a request mode",
    Ask(body=body(topic=TOPIC, consumerGroup=OTHERS, mode="PULL", popShareQueueNum=0)),
)
always(402, "all request modes")
always(31001, "bytes of the log", {"position": 0, "size": 1000})
always(31003, "entries of a queue", {"topic": TOPIC, "queueId": 0, "offset": 0, "count": 1})


@attempt(31011, "move the lead")
async def _move(world: World) -> Ask:
    return Ask({"node": world.leader.config.node_id})


always(31012, "members")


always(31013, "change members", {"kind": "remove", "node": "n9", "dryRun": "true"})
always(31014, "look for damage")
always(31015, "verify the log", {"first": 0, "last": 3})

# ---- a group of one's own and a topic that is not, and the other way round --------------------


def crossed(code: int, make: Callable[[str, str], Ask]) -> None:
    """Two rows: the topic is not one's own, the group is not."""
    same(code, "one's group, another topic", make(OTHER, GROUP))
    same(code, "one's topic, another group", make(TOPIC, OTHERS))


def _read(**more: Any) -> Callable[[str, str], Ask]:
    return lambda topic, group: Ask({**READ, "topic": topic, "consumerGroup": group, **more})


def _of_group(**more: Any) -> Callable[[str, str], Ask]:
    return lambda topic, group: Ask({"topic": topic, "group": group, **more})


def _lock(topic: str, group: str) -> Ask:
    queue = {**QUEUE, "topic": topic}
    return Ask(body=body(consumerGroup=group, clientId="crossing@1", mqSet=[queue]))


def _subscription(topic: str, group: str) -> Ask:
    return Ask(body=body(group=group, subscriptionData={"topic": topic, "subString": "*"}))


def _question(topic: str, group: str) -> Ask:
    return Ask(body=body(topic=topic, consumerGroup=group, clientId=VICTIM, strategyName="AVG"))


crossed(11, pull)
crossed(14, _read())
crossed(41, _lock)
crossed(46, _subscription)
crossed(303, _of_group())
crossed(308, lambda topic, group: Ask({"topic": topic, "compareGroup": group}))
crossed(321, _read(index=0, count=1))
crossed(345, _of_group())
crossed(400, _question)
crossed(200054, _read(pollTime=0))
crossed(200055, _read())


@attempt(34, "one's group, another topic")
async def _join_for_another_topic(world: World) -> Ask:
    return heartbeat(f"member{next(world.numbers)}@1", (), (GROUP,), OTHER)


@attempt(34, "one's topic, another group")
async def _join_another_group(world: World) -> Ask:
    return heartbeat(f"member{next(world.numbers)}@1", (), (OTHERS,))


for _code in (200050, 200052):
    popping(_code, "one's group, another topic", OTHER, GROUP)
    popping(_code, "one's topic, another group", TOPIC, OTHERS)


def committing_to(what: str, topic: str, group: str) -> None:
    @attempt(15, what)
    async def ask(world: World) -> Ask:
        for _ in range(2):
            await world.sent(topic)
        place = {**READ, "topic": topic, "consumerGroup": group}
        newest = world.leader.parts.offsets.newest(group, topic, 0) or 0
        return Ask({**place, "commitOffset": newest + 1})


committing_to("one's group, another topic", OTHER, GROUP)
committing_to("one's topic, another group", TOPIC, OTHERS)
always(105, "route of a topic", {"topic": TOPIC})
always(106, "the broker names")
always(206, "the topics' names")
always(31017, "messages that wait", {"kind": "delayed"})


# ---- accounts of the log -----------------------------------------------------------------------

# A file guards this group, and the log's administrator has the key of one in the file.
CHIEF = {"accessKey": "account-admin", "secretKey": "secret-of-account-admin", "admin": True}
SECRET = "drawn-for-this-test-alone"


async def _user(world: World) -> str:
    """One of the log that is new."""
    name = f"user-{next(world.numbers)}"
    rows = [CHIEF, {"accessKey": name, "secretKey": SECRET, "topicPerms": ["a=PUB"]}]
    await world.admin(Code.CHANGE_ACCOUNTS, Ask(body=body(put=rows)))
    return name


def of_user(code: int, what: str, make: Callable[[str, int], Ask]) -> None:
    @attempt(code, what)
    async def ask(world: World) -> Ask:
        return make(await _user(world), next(world.numbers))


def _policy(name: str, number: int) -> Ask:
    entry = {"resource": f"Topic:t{number}", "actions": ["Pub"], "decision": "Allow"}
    return Ask({"subject": f"User:{name}"}, body(policies=[{"entries": [entry]}]))


of_user(
    *(3001, "create a user"),
    lambda _, number: Ask({"username": f"made-{number}"}, body(password=SECRET)),
)
of_user(
    *(3002, "update a user"), lambda name, _: Ask({"username": name}, body(userStatus="disable"))
)
of_user(3003, "delete a user", lambda name, _: Ask({"username": name}))
of_user(3004, "a user", lambda name, _: Ask({"username": name}))
of_user(3005, "users", lambda name, _: Ask({"filter": name}))
of_user(3006, "create an ACL", _policy)
of_user(3007, "update an ACL", _policy)
of_user(3008, "delete an ACL", lambda name, _: Ask({"subject": f"User:{name}"}))
of_user(3009, "an ACL", lambda name, _: Ask({"subject": f"User:{name}"}))
of_user(3010, "ACLs", lambda name, _: Ask({"subjectFilter": name}))
of_user(31018, "change accounts", lambda name, _: Ask(body=body(delete=[name])))
of_user(31019, "list accounts", lambda *_: Ask())
always(31020, "the audit log", {"maxNum": 1})
always(31021, "record an action", {"verb": "dlq resend", "target": "group a"})
always(31022, "leaders seen")


@attempt(309, "let a member consume secrets")
async def _consume_accounts(world: World) -> Ask:
    await world.join()
    name = await _user(world)
    store, reader = world.leader.parts.log.store, world.leader.parts.reader
    (index,) = (
        at
        for at in map(Index, range(1, store.last.index + 1))
        if f'"{name}"'.encode() in (logged := bytes(store.entry(at).body))
        and ACCOUNTS_TOPIC.encode() in logged
    )
    message = encode_offset_id("127.0.0.1", 1, reader.place(index).position)
    return Ask({"consumerGroup": GROUP, "clientId": VICTIM, "msgId": message})
