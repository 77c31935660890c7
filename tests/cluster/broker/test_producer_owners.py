"""A producer id belongs to the account that was first to store a message under it (R8, access)."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.broker.kernel.apply import checkpoint
from cluster.broker.kernel.net.router import needs_of_send
from cluster.broker.kernel.write.dedup import read_numbers
from cluster.broker.node import BrokerNode
from cluster.client import Account, ClientConfig
from cluster.core.access.signature import sign
from cluster.errors import ClusterError, Outcome, Unauthorized
from cluster.nameserver.server import NameServer
from cluster.protocol.codes import VERSION_OWN, ResponseCode
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame
from cluster.protocol.send import SendReader
from commitlog.files.system import OsFileSystem
from commitlog.records.batch import BatchItem, encode_client_batch
from tests.waiting import eventually

from .access_world import Ask, Signing, new_topic, send
from .conftest import MakeBrokers
from .harness import OWN, Brokers, RawClient, bodies, nothing_is_appended, until

TOPIC = "orders"
NO_PERMISSION = 16
ACCOUNTS = f"""
accounts:
- accessKey: account-victim
  secretKey: secret-of-account-victim
  topicPerms: [{TOPIC}=PUB|SUB]
- accessKey: account-thief
  secretKey: secret-of-account-thief
  topicPerms: [{TOPIC}=PUB|SUB]
- accessKey: account-heir
  secretKey: secret-of-account-heir
  topicPerms: [{TOPIC}=PUB|SUB]
  takeOverProducers: [batch/q1/*, moved]
- accessKey: account-admin
  secretKey: secret-of-account-admin
  admin: true
"""
OPEN = "globalWhiteRemoteAddresses: ['*']\n"
SETTINGS = {"cluster_secret": "one for all of this test"}
UNIQUE = "UNIQ_KEY\x01" + "A" * 32 + "\x02"

_numbers = itertools.count(1)


@pytest.fixture
def accounts(tmp_path: Path) -> Path:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    return file


def write(file: Path, text: str) -> None:
    file.write_text(text)


def numbered(number: int, producer: str = "p") -> str:
    return f"__PID\x01{producer}\x02__SEQ\x01{number}\x02{UNIQUE}"


def message(number: int, producer: str = "p", body: bytes | None = None) -> Ask:
    return send(TOPIC, body or b"%d" % number, properties=numbered(number, producer), n="b")


def batch(numbers: range, producer: str = "p") -> Ask:
    items = [BatchItem(0, b"%d" % i, numbered(i, producer).encode()) for i in numbers]
    return send(TOPIC, encode_client_batch(items), m="true", n="b")


class Sender:
    """One of our own clients with an account; `key` "" has none."""

    def __init__(self, client: RawClient, key: str) -> None:
        self.client, self.key = client, key

    async def sends(self, ask: Ask) -> Frame:
        code = Code.SEND_BATCH_MESSAGE if ask.ext["m"] == "true" else Code.SEND_MESSAGE_V2
        return await self.asks(code, ask)

    async def asks(self, code: int, ask: Ask) -> Frame:
        ext = {name: str(value) for name, value in ask.ext.items()}
        ext["zz"] = str(next(_numbers))
        if self.key:
            ext["AccessKey"] = self.key
            ext["Signature"] = sign(ext, ask.body, f"secret-of-{self.key}", VERSION_OWN)
        return await self.client.ask(code, ext, ask.body)


async def sender(brokers: Brokers, name: str, node: BrokerNode | None = None) -> Sender:
    client = await brokers.client(node or await brokers.leader(), **OWN)
    return Sender(client, f"account-{name}" if name else "")


async def with_topic(brokers: Brokers) -> None:
    boss = Signing(await brokers.client(await brokers.leader()), "account-admin")
    assert (await boss.ask(Code.UPDATE_AND_CREATE_TOPIC, new_topic(TOPIC))).code == 0


async def stored(brokers: Brokers) -> list[bytes]:
    """What is in queue 0, by an admin."""
    boss = Signing(await brokers.client(await brokers.leader()), "account-admin")
    pull = {
        "consumerGroup": "g", "topic": TOPIC, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32,
        "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*",
        "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip
    answer = await boss.ask(Code.PULL_MESSAGE, Ask(pull))
    return bodies(answer.body) if answer.code == 0 else []


def owner(node: BrokerNode, producer: str = "p") -> str | None:
    return node.parts.state.producers.owner(producer)


@pytest.mark.parametrize("ask", [message(1), batch(range(1, 3)), message(0), message(9)])
async def test_a_forged_pair_swallows_nothing(
    make_brokers: MakeBrokers, accounts: Path, ask: Ask
) -> None:
    """The next number, a batch of them, a repeat or a gap: the thief is told the same."""
    async with make_brokers(acl_file=str(accounts), **SETTINGS) as brokers:
        await with_topic(brokers)
        victim, thief = await sender(brokers, "victim"), await sender(brokers, "thief")
        assert (await victim.sends(message(0))).code == 0
        answer = await thief.sends(ask)
        assert answer.code == NO_PERMISSION
        assert "belongs to another account" in (answer.remark or "")
        assert not {"queueOffset", "msgId"} & set(answer.ext)
        again = [await victim.sends(message(number, body=b"mine")) for number in (1, 2, 3)]
        assert [a.code for a in again] == [0, 0, 0]
        assert [int(a.ext["queueOffset"]) for a in again] == [1, 2, 3]
        assert await stored(brokers) == [b"0", b"mine", b"mine", b"mine"]
        leader = await brokers.leader()
        await until(lambda: owner(leader) == "account-victim", "the owner, once it is derived")


async def test_one_connection_of_two_accounts(make_brokers: MakeBrokers, accounts: Path) -> None:
    """Where the expected number takes the short way, it is the sender that it is expected of."""
    async with make_brokers(acl_file=str(accounts), **SETTINGS) as brokers:
        await with_topic(brokers)
        victim = await sender(brokers, "victim")
        thief = Sender(victim.client, "account-thief")
        for number in range(3):
            assert (await victim.sends(message(number))).code == 0
        assert (await thief.sends(message(3))).code == NO_PERMISSION
        assert (await victim.sends(batch(range(3, 5)))).code == 0
        assert (await thief.sends(batch(range(5, 6)))).code == NO_PERMISSION
        assert (await victim.sends(batch(range(5, 7)))).code == 0
        assert len(await stored(brokers)) == 7


async def test_before_the_first_message_is_committed(
    make_brokers: MakeBrokers, accounts: Path
) -> None:
    async with make_brokers(acl_file=str(accounts), **SETTINGS) as brokers:
        await with_topic(brokers)
        victim, thief = await sender(brokers, "victim"), await sender(brokers, "thief")
        with nothing_is_appended(await brokers.leader()):
            first = victim.client.ask(*signed(victim, message(0)))
            await until_waiting(brokers, 1)
            forged = thief.client.ask(*signed(thief, message(1)))
            await thief.client.ask(9999)  # served after it
        assert (await forged).code == NO_PERMISSION
        assert (await first).code == 0
        assert (await victim.sends(message(1))).code == 0


def signed(who: Sender, ask: Ask) -> tuple[int, dict[str, str], bytes]:
    ext = {name: str(value) for name, value in ask.ext.items()} | {"AccessKey": who.key}
    ext["Signature"] = sign(ext, ask.body, f"secret-of-{who.key}", VERSION_OWN)
    return Code.SEND_MESSAGE_V2, ext, ask.body


async def until_waiting(brokers: Brokers, count: int) -> None:
    appender = (await brokers.leader()).parts.appender
    await until(lambda: appender._open is not None and len(appender._open.bodies) > count)


async def test_every_node_knows_it_and_the_next_leader_asks(
    make_brokers: MakeBrokers, accounts: Path
) -> None:
    """Sends through a follower are the client's own, also when they are asked again."""
    async with make_brokers(3, acl_file=str(accounts), **SETTINGS) as brokers:
        await with_topic(brokers)
        leader, follower = await brokers.leader(), await brokers.follower()
        victim = await sender(brokers, "victim", follower)
        thief = await sender(brokers, "thief", follower)
        assert (await victim.sends(message(0))).code == 0
        assert (await thief.sends(message(1))).code == NO_PERMISSION
        assert (await victim.sends(message(1))).code == 0
        moved = await (await sender(brokers, "admin", leader)).asks(Code.TRANSFER_LEADER, Ask())
        assert moved.code == 0, moved.remark
        assert await brokers.leader() is not leader
        for node in brokers.running():
            there, other = (
                await sender(brokers, "victim", node),
                await sender(brokers, "thief", node),
            )
            following = len(await stored(brokers))
            assert (await other.sends(message(following))).code == NO_PERMISSION
            assert (await there.sends(message(following))).code == 0
        for number in range(3):
            await brokers.stop_node(number)
            node = await brokers.start_node(number)
        leader = await brokers.leader()
        await until(lambda: owner(leader) == "account-victim", "the owner, once it is derived")
        assert (await (await sender(brokers, "thief")).sends(message(9))).code == NO_PERMISSION


async def test_an_upgrade_reads_owners_from_the_log(
    make_brokers: MakeBrokers, accounts: Path
) -> None:
    """A version that kept none left a checkpoint that says nothing of them."""
    async with make_brokers(acl_file=str(accounts), **SETTINGS) as brokers:
        await with_topic(brokers)
        assert (await (await sender(brokers, "victim")).sends(message(0))).code == 0
        await brokers.stop_node(0)
        path = brokers.root / "n0" / checkpoint.FILE_NAME
        saved: list[bytes] = []
        assert checkpoint.load(OsFileSystem(), path, saved.append)
        value = json.loads(saved[0])
        assert value.pop("owners")
        path.write_bytes(checkpoint.encode(json.dumps(value).encode()))
        await brokers.start_node(0)
        leader = await brokers.leader()
        await until(lambda: owner(leader) == "account-victim", "the owner, once it is derived")
        assert (await (await sender(brokers, "thief")).sends(message(1))).code == NO_PERMISSION


async def test_without_accounts_ids_are_anybodys(make_brokers: MakeBrokers, accounts: Path) -> None:
    """And belong to whoever is first once there are accounts."""
    settings: dict[str, Any] = {**SETTINGS}
    async with make_brokers(**settings) as brokers:
        await (await brokers.client(await brokers.leader())).ask(
            Code.UPDATE_AND_CREATE_TOPIC,
            {name: str(value) for name, value in new_topic(TOPIC).ext.items()},
        )
        one, other = await sender(brokers, ""), await sender(brokers, "")
        assert (await one.sends(message(0))).code == 0
        assert (await other.sends(message(1))).code == 0
        assert owner(await brokers.leader()) is None
        await brokers.stop_node(0)
        brokers.settings = {**settings, "acl_file": str(accounts)}
        await brokers.start_node(0)
        victim, thief = await sender(brokers, "victim"), await sender(brokers, "thief")
        assert (await thief.sends(message(0))).code == 0, "a repeat claims nothing"
        assert (await victim.sends(message(2))).code == 0
        assert (await thief.sends(message(3))).code == NO_PERMISSION
        assert await stored(brokers) == [b"0", b"1", b"2"]


async def test_addresses_that_need_no_account_are_one_owner(
    make_brokers: MakeBrokers, accounts: Path
) -> None:
    write(accounts, OPEN + ACCOUNTS)
    async with make_brokers(acl_file=str(accounts), **SETTINGS) as brokers:
        leader = await brokers.leader()
        await with_topic(brokers)
        nobody = await sender(brokers, "")
        assert (await nobody.sends(message(0))).code == 0
        await until(lambda: owner(leader) == "")
        write(accounts, ACCOUNTS)
        assert leader.parts.access is not None
        assert leader.parts.access.look_again()
        assert (await (await sender(brokers, "thief")).sends(message(1))).code == NO_PERMISSION


@pytest.mark.parametrize(
    "properties",
    [
        f"x{numbered(0, 'other')}",
        f"MSG_REGION\x01{numbered(1, 'own')}{numbered(1)}",
        f"{numbered(0, 'own')}".replace("\x02__SEQ", "\x02", 1),
    ],
)
async def test_numbers_are_read_as_every_replica_reads_them(
    make_brokers: MakeBrokers, accounts: Path, properties: str
) -> None:
    """What a broker takes away, or a longer name, must not hide whose numbers are stored."""
    async with make_brokers(acl_file=str(accounts), **SETTINGS) as brokers:
        await with_topic(brokers)
        victim = await sender(brokers, "victim")
        thief = Signing(await brokers.client(await brokers.leader()), "account-thief")
        assert (await victim.sends(message(0))).code == 0
        ask = send(TOPIC, b"forged", properties=properties)
        answer = await thief.ask(Code.SEND_MESSAGE_V2, ask)
        assert answer.code in (NO_PERMISSION, ResponseCode.INVALID_PARAMETER)
        assert (await victim.sends(message(1))).ext["queueOffset"].lstrip("0") == "1"


async def test_numbers_hide_behind_what_a_broker_takes_away(
    make_brokers: MakeBrokers, accounts: Path
) -> None:
    """A value may hold what looks like numbers; they go with it, and others are stored."""
    async with make_brokers(acl_file=str(accounts), **SETTINGS) as brokers:
        await with_topic(brokers)
        victim = await sender(brokers, "victim")
        thief = Signing(await brokers.client(await brokers.leader()), "account-thief")
        assert (await victim.sends(message(0))).code == 0
        hidden = f"MSG_REGION\x01__PID\x01own\x02__SEQ\x010\x02{numbered(1)}"
        ask = send(TOPIC, b"forged", properties=hidden)
        assert (await thief.ask(Code.SEND_MESSAGE_V2, ask)).code == NO_PERMISSION
        assert (await victim.sends(message(1, body=b"mine"))).code == 0
        assert await stored(brokers) == [b"0", b"mine"]


async def test_a_batch_is_numbered_as_a_whole(make_brokers: MakeBrokers, accounts: Path) -> None:
    """Numbers behind a first message that has none would be counted, and asked of nobody."""
    async with make_brokers(acl_file=str(accounts), **SETTINGS) as brokers:
        await with_topic(brokers)
        victim, thief = await sender(brokers, "victim"), await sender(brokers, "thief")
        assert (await victim.sends(message(0))).code == 0
        items = [BatchItem(0, b"x", b""), BatchItem(0, b"forged", numbered(1).encode())]
        answer = await thief.sends(send(TOPIC, encode_client_batch(items), m="true"))
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert (await victim.sends(message(1, body=b"mine"))).ext["queueOffset"].lstrip("0") == "1"
        assert await stored(brokers) == [b"0", b"mine"]


async def test_handing_over_is_a_right(make_brokers: MakeBrokers, accounts: Path) -> None:
    """By name; the former owner, who took the short way, is refused from then on."""
    async with make_brokers(3, acl_file=str(accounts), **SETTINGS) as brokers:
        await with_topic(brokers)
        victim, thief = await sender(brokers, "victim"), await sender(brokers, "thief")
        heir = await sender(brokers, "heir", await brokers.follower())
        for number in range(3):
            for producer in ("kept", "moved"):
                assert (await victim.sends(message(number, producer))).code == 0
        kept, moved = Ask({"producerId": "kept"}), Ask({"producerId": "moved"})
        assert (await heir.asks(Code.TAKE_OVER_PRODUCER, kept)).code == NO_PERMISSION
        assert (await thief.asks(Code.TAKE_OVER_PRODUCER, moved)).code == NO_PERMISSION
        assert (await heir.sends(message(3, "moved"))).code == NO_PERMISSION, "it must be asked for"
        for _ in range(2):
            assert (await heir.asks(Code.TAKE_OVER_PRODUCER, moved)).code == 0
        assert (await victim.sends(message(3, "moved"))).code == NO_PERMISSION
        assert (await heir.sends(message(2, "moved"))).code == 0, "a repeat of what it went on with"
        assert (await heir.sends(message(3, "moved"))).code == 0
        assert (await victim.sends(message(3, "kept"))).code == 0
        last = (await brokers.leader()).parts.log.store.last.index
        unknown = Ask({"producerId": "batch/q1/0"})
        assert (await heir.asks(Code.TAKE_OVER_PRODUCER, unknown)).code == 0
        end = (await brokers.leader()).parts.log.store.last.index
        assert end == last + 1, "its entry of the audit log, and nothing else"
        for node in brokers.running():
            await until(lambda node=node: owner(node, "moved") == "account-heir")
            assert owner(node, "kept") == "account-victim"


async def test_our_client_gives_the_message_up_and_goes_on(
    make_brokers: MakeBrokers, accounts: Path, new_address: Callable[[], str]
) -> None:
    """The error is certain and not retriable; what comes next has an id of its own."""
    account = Account("account-victim", "secret-of-account-victim")
    async with NameServer(new_address(), 9876, warm_up_seconds=0.0) as server:
        settings = {**SETTINGS, "acl_file": str(accounts), "name_servers": (server.address,)}
        async with (
            make_brokers(**settings) as brokers,
            cluster.connect(server.address, ClientConfig(account=account)) as mq,
        ):
            await with_topic(brokers)
            boss, producer = await sender(brokers, "admin"), mq.producer()
            await eventually(lambda: is_routed(mq), "the topic's route")
            await producer.send(TOPIC, b"first", queue_id=0)
            (queue_sender,) = producer._senders.values()
            taken = read_numbers(queue_sender._prefix % 1)[0]
            ask = Ask({"producerId": taken})
            assert (await boss.asks(Code.TAKE_OVER_PRODUCER, ask)).code == 0
            with pytest.raises(Unauthorized, match="belongs to another account") as refused:
                await producer.send(TOPIC, b"refused", queue_id=0)
            assert not refused.value.retriable
            assert refused.value.outcome is Outcome.NOT_DONE
            await producer.send(TOPIC, b"second", queue_id=0)
            assert read_numbers(queue_sender._prefix % 1)[0] != taken
            assert await stored(brokers) == [b"first", b"second"]


async def is_routed(mq: cluster.Client) -> bool:
    with contextlib.suppress(ClusterError):
        return bool(await mq.routes.refresh(TOPIC))  # its own, not that of topics to be made
    return False


async def test_what_is_asked_again_says_whose_it_is(
    make_brokers: MakeBrokers, accounts: Path
) -> None:
    """A send that a leadership refused as it ended is passed on as it is signed."""
    async with make_brokers(3, acl_file=str(accounts), **SETTINGS) as brokers:
        await with_topic(brokers)
        follower = await brokers.follower()
        victim = await sender(brokers, "victim", follower)
        assert (await victim.client.ask(9999)).code
        (connection,) = follower.parts.server.connections
        _, ext, body = signed(victim, message(0))
        frame = Frame(Code.SEND_MESSAGE_V2, 77, ext, body, 0, None, "PYTHON", VERSION_OWN)
        request = SendReader().read(frame)._replace(sender="account-victim", signed=frame)
        answer = victim.client.waits_for(77)
        assert follower.parts.router.sends_again(connection, [request])
        assert (await answer).code == 0
        leader = await brokers.leader()
        await until(lambda: owner(leader) == "account-victim")


def test_a_half_needs_the_group_that_its_property_names() -> None:
    """Its check-backs go there, whatever group the header says."""
    ext = {name: str(value) for name, value in send(TOPIC).ext.items()}

    def producers(**more: str) -> tuple[str, ...]:
        frame = Frame(Code.SEND_MESSAGE_V2, 1, {**ext, **more})
        return needs_of_send(SendReader().read(frame)).producers

    named = "TRAN_MSG\x01true\x02PGROUP\x01a\x02PGROUP\x01payers\x02"
    assert producers(f="4", i=named) == (ext["a"], "payers")
    assert producers(f="4", i="TRAN_MSG\x01true\x02") == (ext["a"],)
    assert producers(f="0", i=named) == (ext["a"],), "a message that was received and is sent on"
