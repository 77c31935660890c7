"""TLS between peers: certificates on both sides, both kinds on one port while a group is moved."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from dledger import DledgerError, RaftConfig
from dledger.config import TlsMode
from dledger.core.types import NodeId
from dledger.membership.handshake import Dialler, LinkKind, Member
from dledger.runtime.inbound_tls import InboundTls
from dledger.runtime.peer_tls import PeerTls
from dledger.wire.frames import FRAME_SIZE, FrameType

from .ends import End, Make, append, beat, meet
from .group import Group, until

PEM = Path(__file__).parents[2] / "data" / "tls"
BIG = bytes(range(256)) * 8192  # 2 MiB


def tls(mode: str, certificate: str, folder: Path = PEM) -> dict[str, object]:
    return {
        "tls_mode": mode,
        "tls_certificate": str(folder / f"{certificate}.pem"),
        "tls_key": str(folder / f"{certificate}.key"),
        "tls_authority": str(folder / "authority.pem"),
    }


def protocols(end: End) -> set[str | None]:
    """What the connections that have come in speak."""
    found: set[str | None] = set()
    for inbound in end.transport.inbound.values():
        session = inbound._session if isinstance(inbound, InboundTls) else None
        found.add(None if session is None else session.version())
    return found


async def exchange(one: End, two: End) -> None:
    one.transport.send(two.name, append(one.name, BIG))
    two.transport.send(one.name, beat(two.name))
    await until(lambda: bool(two.raw and one.got))
    assert two.raw == [BIG]


@pytest.mark.parametrize(
    ("mine", "theirs", "spoken"),
    [
        ("enforcing", "enforcing", {"TLSv1.3"}),
        ("permissive", "enforcing", {"TLSv1.3"}),
        ("permissive", "permissive", {"TLSv1.3"}),
        ("disabled", "permissive", {None}),
    ],
)
async def test_two_nodes_meet_in_every_step_of_a_move(
    make: Make, mine: str, theirs: str, spoken: set[str | None]
) -> None:
    one, two = make("n0", **tls(mine, "n0")), make("n1", **tls(theirs, "n1"))
    await meet(one, two)
    await exchange(one, two)
    assert protocols(one) | protocols(two) == spoken


async def test_enforced_tls_refuses_a_plain_node_and_says_so_seldom(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = make("n0"), make("n1", **tls("enforcing", "n1"))
    await one.transport.start()
    await two.transport.start()
    await until(lambda: "takes TLS only" in one.error("n1") and "closed" in two.error("n0"))
    links = [one.transport.links[two.name, lane] for lane in LinkKind]
    for _ in range(
        3
    ):  # three more attempts of each lane: of eight, the 1st, 2nd, 4th, 8th are told
        for link in links:
            link.dial_now()
        caplog.handler.flush()
        await until(lambda: all(not link.status().open for link in links))
    said = [text for text in caplog.messages if "n1: closed a connection" in text]
    assert 1 <= len(said) <= 4
    assert "tls_mode permissive or enforcing" in said[0]
    assert "like it so far" not in said[0]
    assert not two.got


async def test_enforced_tls_answers_a_plain_hello_with_what_to_do(make: Make) -> None:
    two = make("n1", **tls("enforcing", "n1"))
    await two.transport.start()
    reader, writer = await asyncio.open_connection(*two.config.peers["n1"])
    me = Member("cluster", "default", NodeId("n0"), 7)
    hello = Dialler(me, two.name, LinkKind.BULK, None, bytes(16), lambda *_: None)
    writer.write(hello.start())
    answer = await reader.readexactly(FRAME_SIZE)
    assert answer[4] == FrameType.REFUSED
    assert b"tls_mode permissive or enforcing" in await reader.read()
    writer.close()


@pytest.mark.parametrize("wrong", ["foreign", "expired"])
@pytest.mark.parametrize("dials", [True, False])
def test_only_what_the_authority_signed_is_believed(wrong: str, dials: bool) -> None:
    """Either side refuses the other's certificate; no socket, only the two contexts."""
    mode, authority = TlsMode.ENFORCING, str(PEM / "authority.pem")

    def context(name: str, *, dials: bool) -> ssl.SSLContext:
        pems = str(PEM / f"{name}.pem"), str(PEM / f"{name}.key")
        return PeerTls(mode, *pems, authority).context(dials=dials)

    def shake_hands(shown: str) -> None:
        one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
        ours = context("n0", dials=dials).wrap_bio(one, two, server_side=not dials)
        theirs = context(shown, dials=not dials).wrap_bio(two, one, server_side=dials)
        for _ in range(4):  # more than any handshake takes
            for side in (theirs, ours):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()

    shake_hands("n1")
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        shake_hands(wrong)


@pytest.mark.parametrize(
    ("shown", "word"),
    [
        ("foreign", "verify failed"),
        ("expired", "certificate has expired"),
        ("n2", "n1 shows the certificate of n2"),
    ],
)
async def test_a_wrong_certificate_is_refused_and_nobody_else_notices(
    make: Make, caplog: pytest.LogCaptureFixture, shown: str, word: str
) -> None:
    """n0 and the true n1 are connected; then somebody else says that he is n1."""
    one, two = make("n0", **tls("enforcing", "n0")), make("n1", **tls("enforcing", "n1"))
    await meet(one, two)
    inbound = dict(one.transport.inbound)
    with caplog.at_level(logging.WARNING):
        other = make("n1", **tls("enforcing", shown), listen=("127.0.0.1", 0))
        await other.transport.start()
        await until(lambda: word in caplog.text)
    assert not other.open("n0")
    await exchange(one, two)
    assert one.transport.inbound == inbound
    assert not one.lost


async def test_the_dialler_looks_at_the_certificate_too(make: Make) -> None:
    """n1 is dialled, and its certificate names n2."""
    one, two = make("n0", **tls("enforcing", "n0")), make("n1", **tls("enforcing", "n2"))
    await one.transport.start()
    await two.transport.start()
    await until(lambda: "n1 shows the certificate of n2" in one.error("n1"))
    assert not one.open("n1")


async def test_a_certificate_without_a_node_is_any_nodes(make: Make) -> None:
    one = make("n0", **tls("enforcing", "unnamed"))
    two = make("n1", **tls("enforcing", "unnamed"))
    await meet(one, two)
    await exchange(one, two)


async def test_who_shows_no_certificate_is_not_heard(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    two = make("n1", **tls("enforcing", "n1"))
    await two.transport.start()
    context = ssl.create_default_context(cafile=str(PEM / "authority.pem"))
    context.check_hostname = False
    reader, writer = await asyncio.open_connection(*two.config.peers["n1"], ssl=context)
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        writer.write(b"whatever")
        assert await reader.read() == b""
    writer.close()
    await until(lambda: "did not return a certificate" in caplog.text)


@pytest.mark.parametrize("mode", ["disabled", "permissive", "enforcing"])
@pytest.mark.parametrize(
    "bad", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600), b"GET / HTTP/1.1\r\n\r\n"]
)
async def test_rubbish_costs_its_own_connection(make: Make, mode: str, bad: bytes) -> None:
    one, two = make("n0", **tls(mode, "n0")), make("n1", **tls(mode, "n1"))
    await meet(one, two)
    reader, writer = await asyncio.open_connection(*two.config.peers["n1"])
    writer.write(bad)
    with contextlib.suppress(ConnectionError):
        await reader.read()  # until it is closed
    writer.close()
    await exchange(one, two)
    assert not one.lost
    assert not two.lost


@pytest.mark.parametrize("begin", [b"", b"\x16", b"\x16\x03\x01\x02\x00"])
async def test_half_a_handshake_ends_with_the_time_for_the_hello(make: Make, begin: bytes) -> None:
    two = make("n1", connection_timeout_ms=600, **tls("enforcing", "n1"))
    await two.transport.start()
    reader, writer = await asyncio.open_connection(*two.config.peers["n1"])
    writer.write(begin)
    assert await reader.read() == b""
    assert not two.transport.peer_port.greeting
    writer.close()


async def test_a_hello_in_single_bytes_and_a_goodbye(make: Make) -> None:
    """Records arrive in any portions: a client's side of TLS, written byte by byte."""
    two = make("n1", **tls("enforcing", "n1"))
    await two.transport.start()
    context = ssl.create_default_context(cafile=str(PEM / "authority.pem"))
    context.check_hostname = False
    context.load_cert_chain(PEM / "n0.pem", PEM / "n0.key")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing)
    reader, writer = await asyncio.open_connection(*two.config.peers["n1"])
    while True:
        try:
            session.do_handshake()
            break
        except ssl.SSLWantReadError:
            for byte in outgoing.read():
                writer.write(bytes([byte]))
                await writer.drain()
            incoming.write(await reader.read(1 << 16))
    for byte in outgoing.read():
        writer.write(bytes([byte]))
        await writer.drain()
    with contextlib.suppress(ssl.SSLWantReadError):
        session.unwrap()
    writer.write(outgoing.read())
    assert await reader.read() is not None
    await until(lambda: not two.transport.peer_port.greeting)
    writer.close()


def install(name: str, folder: Path) -> None:
    """As `n1` of `folder`; written aside and renamed, as tools do."""
    for kind in ("key", "pem"):
        shutil.copy(PEM / f"{name}.{kind}", folder / "new")
        (folder / "new").rename(folder / f"n1.{kind}")


async def test_new_certificates_count_without_a_restart(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copy(PEM / "authority.pem", tmp_path)
    install("expired", tmp_path)
    one = make("n0", **tls("enforcing", "n0"))
    two = make("n1", **tls("enforcing", "n1", tmp_path))
    await one.transport.start()
    await two.transport.start()
    await until(lambda: "expired" in caplog.text)
    install("n1", tmp_path)
    await until(lambda: one.open("n1") and two.open("n0"))
    (tmp_path / "n1.pem").write_text("no certificate")
    for inbound in list(one.transport.inbound.values()):
        inbound.close()
    await until(lambda: "the certificate read before stays in force" in caplog.text)
    await until(lambda: two.open("n0"))
    await exchange(two, one)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"tls_mode": "on"}, "none of disabled, permissive, enforcing"),
        ({**tls("enforcing", "n0"), "tls_key": None}, "tls_key None, .* give all three"),
        ({"listen": ("0.0.0.0", 1), **tls("permissive", "n0")}, "needs secret or enforced TLS"),
    ],
)
def test_settings_that_cannot_work(values: dict[str, object], word: str) -> None:
    config = RaftConfig("n0", {"n0": ("127.0.0.1", 1)}, "x", **values)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=word):
        config.validate()


def test_enforced_tls_lets_a_node_listen_beyond_this_machine() -> None:
    values = {"listen": ("0.0.0.0", 1), **tls("enforcing", "n0")}
    RaftConfig("n0", {"n0": ("10.0.0.1", 1)}, "x", **values).validate()  # type: ignore[arg-type]


async def store(group: Group, running: Callable[[], bool], acked: set[bytes]) -> None:
    """Append one after the other, at whoever leads, noting what was acknowledged."""
    number = 0
    while running():
        number += 1
        body = b"body %d" % number
        leading = [log for log in group.logs.values() if log.is_leader]
        if not leading:
            await until(lambda: not running() or any(o.is_leader for o in group.logs.values()))
            continue
        log = leading[0]
        with contextlib.suppress(DledgerError):
            await log.append(body)
            acked.add(body)


async def has_all(group: Group, acked: set[bytes]) -> None:
    """Every acknowledged body is on every node, before a last one that is appended now."""
    end = b"the end"
    stored = None
    while stored is None:  # a leader may change at any moment
        with contextlib.suppress(DledgerError):
            stored = await (await group.leader()).append(end)
    for log in group.logs.values():
        found: set[bytes] = set()
        async for entry in log.committed():
            found.add(bytes(entry.body))
            if end in found:
                break
        assert acked <= found


async def change_all(group: Group, mode: str) -> None:
    for name in list(group.configs):
        await group.stop(name)
        group.change(name, **tls(mode, name))
        await group.start(name)
        await group.leader()


async def test_a_group_is_moved_to_tls_by_restarts_and_loses_nothing(group: Group) -> None:
    await group.start()
    await group.leader()
    acked: set[bytes] = set()
    busy = True
    load = asyncio.create_task(store(group, lambda: busy, acked))
    for mode in ("permissive", "enforcing"):
        before = len(acked)
        await change_all(group, mode)
        await until(lambda before=before: len(acked) > before)  # type: ignore[misc]
    first = await group.leader()
    await group.stop(first.config.node_id)
    await group.leader()
    busy = False
    await load
    await has_all(group, acked)
