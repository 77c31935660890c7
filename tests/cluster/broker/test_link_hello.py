"""Links between nodes: both sides prove the secret, and what was recorded opens no second link."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster.broker.kernel.net import forward
from cluster.broker.kernel.net.forward import ForwardLink
from cluster.broker.kernel.net.hello import ForwardAcceptor, ForwardDialler
from cluster.errors import ClusterError, InvalidRequest, Unauthorized
from cluster.protocol.codes import RequestCode as Code
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from dledger.core.types import Index, Term
from dledger.runtime.owned import Owned

from .access_world import ACCOUNTS, SETTINGS, TOPIC, Signing, new_topic, send
from .conftest import MakeBrokers
from .harness import until
from .test_forward import LinkClient, Lost, Transport, raise_it

ADDRESS = "10.1.2.3:4567"
_nonces = itertools.count(1)


def nonce() -> bytes:
    return next(_nonces).to_bytes(16, "big")


def dialler(secret: str | None = "secret", **other: str) -> ForwardDialler:
    said = {"client_address": ADDRESS, "node": "n1", "start_token": "a", "to": "n0", **other}
    return ForwardDialler(**said, secret=secret, nonce=nonce())


def acceptor(secret: str | None = "secret") -> ForwardAcceptor:
    return ForwardAcceptor("n0", ("n1", "n2"), secret, nonce())


def meet(opens: ForwardDialler, accepts: ForwardAcceptor) -> list[Frame]:
    """All frames that go over the link until it is open. Raises what either side does."""
    frames = [opens.begin()]
    answer = accepts.receive(frames[0])
    if answer is not None:
        frames += [answer, opens.receive(answer)]
        assert accepts.hello is None, "it has proved nothing yet"
        assert accepts.receive(frames[2]) is None
    return frames


@pytest.mark.parametrize("secret", [None, "secret"])
@pytest.mark.parametrize("address", [ADDRESS, "[::1]:4567"])
def test_a_hello_carries_the_clients_address(address: str, secret: str | None) -> None:
    opens, accepts = dialler(secret, client_address=address), acceptor(secret)
    frames = meet(opens, accepts)
    assert opens.is_open
    assert accepts.hello is not None
    assert (str(accepts.hello.client), accepts.hello.node, accepts.hello.start_token) == (
        address,
        "n1",
        "a",
    )
    assert "secret" not in str(frames)
    with pytest.raises(InvalidRequest, match="once"):
        accepts.receive(frames[0])


@pytest.mark.parametrize("is_relayed", [True, False])
def test_a_hello_says_whether_its_client_came_to_the_relay_port(is_relayed: bool) -> None:
    opens = ForwardDialler(ADDRESS, "n1", "a", "n0", None, nonce(), is_relayed=is_relayed)
    accepts = acceptor(None)
    accepts.receive(opens.begin())
    assert accepts.hello is not None
    assert accepts.hello.is_relayed is is_relayed


@pytest.mark.parametrize("secrets", [("secret", "other"), ("secret", None), (None, "secret")])
def test_both_sides_must_know_one_secret(secrets: tuple[str | None, str | None]) -> None:
    opens, accepts = dialler(secrets[0]), acceptor(secrets[1])
    with pytest.raises(Unauthorized):
        meet(opens, accepts)
    assert accepts.hello is None


def test_a_leader_that_lacks_the_secret_is_not_believed() -> None:
    opens, impostor = dialler("secret"), acceptor("guessed")
    answer = impostor.receive(opens.begin())
    assert answer is not None
    with pytest.raises(Unauthorized, match="does not prove"):
        opens.receive(answer)
    assert not opens.is_open


def test_recorded_frames_open_no_second_link() -> None:
    first, _, proof = meet(dialler(), acceptor())
    for again in ([first, proof], [proof], [first, first]):
        accepts = acceptor()
        for frame in again[:-1]:
            accepts.receive(frame)
        with pytest.raises(ClusterError):
            accepts.receive(again[-1])
        assert accepts.hello is None


def test_the_leaders_own_proof_is_not_the_followers() -> None:
    accepts = acceptor()
    answer = accepts.receive(dialler().begin())
    assert answer is not None
    with pytest.raises(Unauthorized):
        accepts.receive(Frame(Code.FORWARD_HELLO, 0, {"proof": answer.ext["proof"]}))
    assert accepts.hello is None


@pytest.mark.parametrize(
    ("name", "value"), [("clientAddress", "10.9.9.9:1"), ("node", "n2"), ("life", "b")]
)
def test_nothing_that_was_said_can_be_changed_on_the_way(name: str, value: str) -> None:
    opens, accepts = dialler(), acceptor()
    said = opens.begin()
    answer = accepts.receive(said._replace(ext={**said.ext, name: value}))
    assert answer is not None
    with pytest.raises(Unauthorized):
        opens.receive(answer)


@pytest.mark.parametrize("other", [{"node": "n9"}, {"to": "n2"}, {"node": "n0"}])
def test_a_link_of_or_to_another_node_is_refused(other: dict[str, str]) -> None:
    with pytest.raises(Unauthorized):
        acceptor().receive(dialler("secret", **other).begin())


@pytest.mark.parametrize("without", ["clientAddress", "node", "life", "nonce"])
def test_a_hello_that_lacks_something_is_refused(without: str) -> None:
    said = dialler().begin()
    ext = {name: value for name, value in said.ext.items() if name != without}
    with pytest.raises((InvalidRequest, Unauthorized)):
        acceptor().receive(said._replace(ext=ext))


# -- the follower's link ---------------------------------------------------------------------------


@pytest.fixture
def lost() -> Lost:
    return []


@pytest.fixture
def client() -> LinkClient:
    return LinkClient()


@pytest.fixture
async def link(client: LinkClient, lost: Lost) -> ForwardLink:
    def give_back(frames: Sequence[Frame], moved: bool) -> None:
        lost.extend((frame.opaque, moved) for frame in frames)

    return ForwardLink(
        client,
        dialler(),
        frame_size_max=1 << 20,
        open_bytes_max=1000,
        term=Term(5),
        applied=lambda: Index(7),
        lost=give_back,
        owned=Owned(raise_it),
    )


async def test_requests_wait_for_the_leaders_proof(link: ForwardLink, client: LinkClient) -> None:
    transport, accepts = Transport(), acceptor()
    link.send(Frame(310, 1))
    link.connection_made(transport)
    link.send(Frame(310, 2))
    link.pause_writing()
    link.resume_writing()
    (hello,) = FrameDecoder().feed(transport.sent)
    answer = accepts.receive(hello)
    assert answer is not None
    link.data_received(encode_frame(Frame(31010, 9)) + encode_frame(answer))
    frames = FrameDecoder().feed(transport.sent)
    assert [(frame.code, frame.opaque) for frame in frames[2:]] == [(310, 1), (310, 2)]
    accepts.receive(frames[1])
    assert accepts.hello is not None
    assert client.taken == [], "what came before the proof is believed of nobody"
    link.close()


async def test_an_impostor_gets_no_request(link: ForwardLink, lost: Lost) -> None:
    transport = Transport()
    link.send(Frame(310, 1))
    link.connection_made(transport)
    (hello,) = FrameDecoder().feed(transport.sent)
    answer = acceptor("guessed").receive(hello)
    assert answer is not None
    before = transport.sent
    link.data_received(encode_frame(answer))
    assert (transport.sent, lost, link.closed) == (before, [(1, False)], True)


async def test_a_leader_that_does_not_answer_is_not_waited_for_long(
    link: ForwardLink, lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "GREETING_SECONDS_MAX", 0.0)
    link.send(Frame(310, 1))
    link.connection_made(Transport())
    await until(lambda: link.closed)
    assert lost == [(1, False)], "it was passed on to nobody, so it is asked again"


# -- real nodes ------------------------------------------------------------------------------------


class Tap:
    """Stands between a follower and its leader, and records what the follower says."""

    def __init__(self, leader: str) -> None:
        self._leader = leader
        self.said = b""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._leader.rpartition(":")
        theirs, ours = await asyncio.open_connection(host, int(port))
        for source, sink, is_said in ((reader, ours, True), (theirs, writer, False)):
            task = asyncio.create_task(self._copy(source, sink, is_said))
            self._tasks.add(task)

    async def _copy(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_said: bool
    ) -> None:
        try:
            while data := await source.read(1 << 16):
                self.said += data if is_said else b""
                sink.write(data)
        finally:
            sink.close()


async def test_a_recorded_link_is_refused_on_another_connection(
    make_brokers: MakeBrokers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a follower said to its leader, said again by somebody else, stores nothing."""
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    async with make_brokers(3, acl_file=str(file), **SETTINGS) as brokers:
        leader, entry = await brokers.leader(), await brokers.follower()
        boss = Signing(await brokers.client(leader), "account-admin")
        assert (await boss.ask(Code.UPDATE_AND_CREATE_TOPIC, new_topic(TOPIC))).code == 0
        tap = Tap(leader.address)
        through, connect = await tap.start(), entry.parts.router._links._connect
        monkeypatch.setattr(
            entry.parts.router._links, "_connect", lambda link, _: connect(link, through)
        )
        try:
            writer = Signing(await brokers.client(entry), "account-write")
            sent = await writer.ask(Code.SEND_MESSAGE_V2, send(TOPIC))
            assert sent.code == 0, sent.remark
            frames = FrameDecoder().feed(tap.said)
            assert [frame.code for frame in frames] == [Code.FORWARD_HELLO] * 2 + [310]
            last = leader.parts.log.store.last.index
            replayed = await brokers.client(leader)
            replayed.write(tap.said)
            with pytest.raises(ConnectionError):
                await replayed.ask(Code.GET_BROKER_CONFIG)
            assert leader.parts.log.store.last.index == last
        finally:
            await tap.close()
