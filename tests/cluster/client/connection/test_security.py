"""Accounts and TLS of our own client: every request signed, certificates checked, secrets kept."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cluster
from cluster.broker.config import BrokerConfig
from cluster.client import (
    Account,
    ClientConfig,
    ClientConfigError,
    ConsumerConfig,
    ProducerConfig,
    Tls,
    blocking,
)
from cluster.client.config import read_account
from cluster.client.connection.connection import Call
from cluster.client.connection.signed_connection import SignedConnection
from cluster.commands.connecting import Reach
from cluster.commands.errors import FAILED, CommandError, exit_code_of
from cluster.commands.messages import _consume, render
from cluster.core.access.seal import broken
from cluster.core.access.signature import is_signed, signed_content
from cluster.errors import NotConnected, NotTrusted, Unauthorized
from cluster.nameserver.server import NameServer
from cluster.protocol.frames import Frame, decode_frame
from cluster.protocol.send_own import SendEncoder
from tests.waiting import limit

from ...broker.harness import Brokers

PEM = Path(__file__).parents[3] / "data" / "tls"
AUTHORITY, KEY = str(PEM / "server.pem"), str(PEM / "server.key")
ORDERS = Account("orders", "orders-secret")
ACCOUNTS = """
accounts:
- accessKey: orders
  secretKey: orders-secret
  topicPerms:
  - orders=PUB|SUB
  groupPerms:
  - billing=SUB
- accessKey: master
  secretKey: master-secret
  admin: true
"""
SERVER = {
    "tls_mode": "enforcing",
    "tls_certificate": AUTHORITY,
    "tls_key": KEY,
    "name_server_tls": True,
}


# ---- signatures ----------------------------------------------------------------------------------


async def _connection() -> tuple[SignedConnection, list[bytes]]:
    written: list[bytes] = []
    connection = SignedConnection("x:1", lambda *_: None, lambda _: None, ORDERS)
    connection.post = (  # type: ignore[method-assign]
        lambda opaque, frame, waiter: written.append(frame)
    )
    return connection, written


_text = st.text(st.characters(codec="utf-8"), max_size=50)


@given(st.lists(st.tuples(_text, st.binary(max_size=200), st.integers(0, 9_999_999_999_999))))
def test_signed_sends_are_the_encoders_and_signed(
    sends: list[tuple[str, bytes, int]],
) -> None:
    async def work() -> None:
        connection, written = await _connection()
        encoders = [
            SendEncoder(
                producer_group="PG",
                topic="orders",
                queue_id=queue,
                broker_name="broker-ä",
                is_batch=queue > 0,
            )
            for queue in range(2)
        ]
        waiter = Call(asyncio.get_running_loop().create_future())
        seals: list[str] = []
        for number, (properties, body, born_ms) in enumerate(sends):
            encoder = encoders[number % 2]
            opaque = connection.post_send(encoder, properties.encode(), body, born_ms, waiter)
            signed = decode_frame(written[-1])
            plain = decode_frame(encoder.frame(opaque, properties.encode(), body, born_ms))
            ext = {**signed.ext}
            assert is_signed(ext, body, "orders-secret", signed.version)
            assert not is_signed(ext, body + b"x", "orders-secret", signed.version)
            assert not is_signed({**ext, "e": "7"}, body, "orders-secret", signed.version)
            assert not is_signed(ext, body, "other-secret", signed.version)
            content = signed_content(ext, body, signed.version)
            assert broken(signed.code, ext, len(body), content) is None
            assert broken(signed.code, ext, len(body) + 1, content) is not None
            seals.append(ext.pop("0seal"))
            del ext["AccessKey"], ext["Signature"]
            assert signed._replace(ext=ext) == plain
        assert len(set(seals)) == len(sends)

    asyncio.run(work())


async def test_other_requests_are_signed() -> None:
    connection, written = await _connection()
    connection.is_open = True
    with pytest.raises(cluster.OutcomeUnknown):
        await connection.call(34, {"k": "v"}, b"body", time_limit=0.01)
    frame = decode_frame(written[0])
    assert frame.ext["AccessKey"] == "orders"
    assert is_signed(frame.ext, b"body", "orders-secret", frame.version)
    assert not is_signed({**frame.ext, "k": "w"}, b"body", "orders-secret", frame.version)
    content = signed_content(frame.ext, b"body", frame.version)
    assert broken(34, frame.ext, 4, content) is None
    assert broken(35, frame.ext, 4, content) is not None


async def test_equal_requests_have_signatures_of_their_own() -> None:
    """A broker takes a sealed request once (single_use.py)."""
    connection, written = await _connection()
    connection.is_open = True
    for code in (351, 215, 215):
        with pytest.raises(cluster.OutcomeUnknown):
            await connection.call(code, {"topic": "T"}, time_limit=0.0)
    assert len({decode_frame(frame).ext["Signature"] for frame in written}) == 3


# ---- settings ------------------------------------------------------------------------------------


def test_a_secret_is_not_shown() -> None:
    config = ClientConfig(account=ORDERS)
    assert "orders-secret" not in repr(config) + str(config) + f"{ORDERS!r}"
    assert "orders" in repr(config)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no accessKey"),
        ("accessKey: a\n", "has no secretKey"),
        ("accessKey: a\nsecretKey:\n", "is empty; give both"),
        ("# accessKey: a\nsecretKey: b\n", "has no accessKey"),
        ("\xff\xfe", "cannot be read"),
    ],
)
def test_account_files_that_say_nothing(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "tools.yml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ClientConfigError, match=said):
        read_account(file)


def test_an_account_file_as_rocketmq_has_it(tmp_path: Path) -> None:
    file = tmp_path / "tools.yml"
    file.write_text("# the tools' account\naccessKey: rocketmq2\nsecretKey: '12345678'\n")
    assert read_account(file) == Account("rocketmq2", "12345678")
    with pytest.raises(ClientConfigError, match=r"none\.yml"):
        read_account(tmp_path / "none.yml")


def test_tls_files_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no PEM")
    for tls, said in (
        (Tls(str(tmp_path / "none.pem")), "none.pem"),
        (Tls(str(tmp_path / "bad.pem")), "bad.pem"),
        (Tls(AUTHORITY, certificate=AUTHORITY, key=str(tmp_path / "none.key")), "none.key"),
    ):
        with pytest.raises(ClientConfigError, match=said):
            tls.context()
    with pytest.raises(ClientConfigError, match="give both or none"):
        Tls(certificate=AUTHORITY)
    with pytest.raises(CommandError, match="give --tls FILE"):
        Reach(any_host=True).config()
    assert Reach(tls="system").config().tls == Tls("", check_host=True)


# ---- a guarded cluster ---------------------------------------------------------------------------


@pytest.fixture
async def guarded(tmp_path: Path, new_address: Callable[[], str]) -> AsyncIterator[str]:
    """Name server and broker with accounts that take TLS only; the name server's address."""
    (tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    server = NameServer(
        port=0,
        warm_up_seconds=0,
        tls_certificate=AUTHORITY,
        tls_key=KEY,
        tls_enforced=True,
    )
    async with server:
        settings: Mapping[str, Any] = SERVER | {
            "acl_file": str(tmp_path / "plain_acl.yml"),
            "name_servers": (server.address,),
        }
        brokers = _Certified(tmp_path, settings, raft_host=new_address())
        try:
            await brokers.start()
            yield server.address
        finally:
            await brokers.close()


class _Certified(Brokers):
    """One broker whose client port is at the address that its certificate names."""

    def __init__(self, root: Path, settings: Mapping[str, Any], *, raft_host: str) -> None:
        super().__init__(root, [raft_host], settings)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self._port = found.getsockname()[1]

    def config(self, number: int) -> BrokerConfig:
        made = super().config(number)
        return dataclasses.replace(made, listen_host="127.0.0.1", listen_port=self._port)


def _config(account: Account | None, tls: Tls | None = None) -> ClientConfig:
    quick = {"connect_timeout": limit(10), "request_timeout": limit(10), "replica_fallback": 0.3}
    return ClientConfig(account=account, tls=tls or Tls(AUTHORITY), **quick)


async def test_whoever_may_not_read_is_told_and_asks_no_more(guarded: str, tmp_path: Path) -> None:
    """By a reader, by a handler, and by `dledger consume`, which asked for ever before."""
    async with cluster.connect(guarded, _config(Account("master", "master-secret"))) as admin:
        await admin.admin().create_topic("orders", 1)
        await admin.admin().create_topic("other", 1)
        async with admin.producer() as producer:
            await producer.send("other", b"not yours")

    async def handle(message: object) -> None:
        raise AssertionError("there is none")

    async with cluster.connect(guarded, _config(ORDERS)) as mq:
        async with mq.reader("other") as reader:
            for _ in range(2):
                with pytest.raises(Unauthorized, match="no SUB of topic other"):
                    await reader.receive()
        async with mq.reader("other", config=ConsumerConfig(manual_ack=True)) as reader:
            with pytest.raises(Unauthorized):
                await reader.run(handle, concurrency=3)
        for topic, group in (("other", "billing"), ("orders", "not-mine")):
            with pytest.raises(Unauthorized):
                await mq.consumer(topic, group=group).start()
    file = tmp_path / "account.yml"
    file.write_text("accessKey: orders\nsecretKey: orders-secret\n")
    file.chmod(0o600)
    reach = Reach(guarded, file, AUTHORITY, any_host=True)
    manual = ConsumerConfig(manual_ack=True)
    with pytest.raises(Unauthorized, match="no SUB of topic other") as told:
        await _consume("other", reach, None, None, manual, render("%v\n"))
    assert exit_code_of(told.value) == FAILED


async def test_an_account_over_tls(guarded: str) -> None:
    async with cluster.connect(guarded, _config(Account("master", "master-secret"))) as admin:
        await admin.admin().create_topic("orders", 2)
        await admin.admin().create_topic("other", 1)
    async with cluster.connect(guarded, _config(ORDERS)) as mq:
        for batching in (False, True):
            async with mq.producer(config=ProducerConfig(batching=batching)) as producer:
                sends = (producer.send("orders", b"%d" % i, key=f"ö{i}") for i in range(40))
                receipts = await asyncio.gather(*sends)
                assert len({(r.queue.queue_id, r.queue_offset) for r in receipts}) == 40
        async with mq.consumer("orders", group="billing") as consumer:
            bodies = []
            async for message in consumer:
                bodies.append(message.body)
                if len(bodies) == 80:
                    break
        assert sorted(bodies) == sorted(b"%d" % i for i in range(40) for _ in range(2))
        async with mq.producer() as producer:
            with pytest.raises(Unauthorized, match="no PUB of topic other"):
                await producer.send("other", b"not mine")
            receipt = await producer.send("orders", b"a refusal takes nothing down")
            assert receipt.queue_offset >= 40


@pytest.mark.parametrize(
    ("account", "said"),
    [
        (None, "wants an account"),
        (Account("orders", "guessed"), "signature .* is wrong"),
        (Account("nobody", "orders-secret"), "no account with access key 'nobody'"),
    ],
)
async def test_who_is_not_known_is_told_so(
    guarded: str, account: Account | None, said: str
) -> None:
    async with cluster.connect(guarded, _config(account)) as mq, mq.producer() as producer:
        with pytest.raises(Unauthorized, match=said):
            await producer.send("orders", b"x")


async def test_a_certificate_that_is_not_believed(guarded: str) -> None:
    for tls in (Tls(), Tls(check_host=False)):
        async with cluster.connect(guarded, _config(ORDERS, tls)) as mq:
            with pytest.raises(NotTrusted, match="give its authority") as found:
                await mq.admin().list_topics()
            assert not found.value.retriable
    second = NameServer("127.0.0.2", 0, warm_up_seconds=0, tls_certificate=AUTHORITY, tls_key=KEY)
    async with second:  # its certificate names 127.0.0.1
        async with cluster.connect(second.address, _config(ORDERS)) as mq:
            with pytest.raises(NotTrusted, match="allow any host"):
                await mq.admin().list_topics()
        config = _config(ORDERS, Tls(AUTHORITY, check_host=False))
        async with cluster.connect(second.address, config) as mq:
            assert await mq.admin().list_topics() == []


async def test_who_speaks_in_the_clear_is_closed(guarded: str) -> None:
    plain = ClientConfig(connect_timeout=limit(10), request_timeout=limit(10), replica_fallback=0.2)
    async with cluster.connect(guarded, plain) as mq:
        with pytest.raises(NotConnected, match="no name server answers"):
            await mq.admin().list_topics()


async def test_the_blocking_client_too(guarded: str) -> None:
    def work() -> int:
        config = _config(Account("master", "master-secret"))
        with blocking.connect(guarded, config) as mq:
            mq.admin().create_topic("orders", 1)
            with mq.producer() as producer:
                return producer.send("orders", b"blocking").queue_offset

    assert await asyncio.to_thread(work) == 0


async def test_the_commands_too(guarded: str, tmp_path: Path) -> None:
    account = tmp_path / "tools.yml"
    account.write_text("accessKey: master\nsecretKey: master-secret\n")
    options = ["-a", guarded, "--account", str(account), "--tls", AUTHORITY]

    async def run(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "cluster.cli", *arguments),
            stdin=-1,
            stdout=-1,
            stderr=-1,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )
        out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    assert await run("topic", "create", "orders", *options) == (0, "orders: 4 queues\n", "")
    produced = await run("produce", "orders", *options, stdin=b"one\ntwo\n")
    assert (produced[0], produced[2]) == (0, "2 acknowledged\n"), produced
    code, out, _ = await run("consume", "orders", "-n", "2", *options)
    assert (code, sorted(out.split())) == (0, ["one", "two"])
    code, _, err = await run("produce", "orders", *options[:2], *options[4:], stdin=b"x\n")
    assert code == 1
    assert "--account FILE" in err
    code, _, err = await run("topic", "list", *options[:4], "--tls", "system")
    assert code == 1
    assert "--tls-any-host" in err
    assert "master-secret" not in err


def test_frames_of_signed_sends_are_known_to_every_broker() -> None:
    """The fields behind the encoder's are ordinary ones."""

    async def work() -> Frame:
        connection, written = await _connection()
        encoder = SendEncoder(producer_group="P", topic="T", queue_id=0, broker_name="b")
        waiter = Call(asyncio.get_running_loop().create_future())
        connection.post_send(encoder, b"", b"x", 1, waiter)
        return decode_frame(written[0])

    frame = asyncio.run(work())
    assert list(frame.ext)[-3:] == ["0seal", "AccessKey", "Signature"]
    assert frame.body == b"x"
