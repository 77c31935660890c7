"""The link on which a follower passes a client's requests on, without sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.broker.kernel.net import forward
from cluster.broker.kernel.net.forward import ForwardLink
from cluster.broker.kernel.net.forward_links import ForwardLinks
from cluster.broker.kernel.net.hello import ForwardDialler
from cluster.broker.kernel.net.in_doubt import in_doubt, read_doubt
from cluster.errors import NotLeader, ServiceNotAvailable
from cluster.protocol.codes import VERSION_OWN as OWN_VERSION
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame, refusal, response
from dledger.core.types import Index, Term
from dledger.runtime.owned import Owned

from .harness import until


class LinkClient:
    """Stands for a client's connection; `taken` holds what it was sent."""

    def __init__(self) -> None:
        self.address = "127.0.0.1:1"
        self.closed = self.is_paused = self.is_relayed = False
        self.taken: list[bytes] = []
        self.calls: list[Callable[[], None]] = []

    def write(self, data: bytes) -> None:
        self.taken.append(data)

    def answer(self, frame: Frame) -> None:
        self.write(encode_frame(frame))

    def when_writable(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def frames(self) -> list[Frame]:
        return FrameDecoder().feed(b"".join(self.taken))


class Transport(asyncio.Transport):
    """Records what the link does with its socket."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.reading = False

    def abort(self) -> None:
        self.close()


class Lost(list[tuple[int, bool]]):
    """(opaque, moved) of the requests that a link gave back."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Frame] = []

    def take(self, frames: Sequence[Frame], moved: bool) -> None:
        self.frames += frames
        self.extend((frame.opaque, moved) for frame in frames)

    def in_doubt(self) -> list[tuple[int, int, int]]:
        """(opaque, after, term) of those that may be stored."""
        found = [frame for frame in self.frames if frame.code == 31004]
        return [(it.frame.opaque, it.after, it.term) for it in map(read_doubt, found)]


@pytest.fixture
def lost() -> Lost:
    return Lost()


def raise_it(error: BaseException) -> None:
    raise error


@pytest.fixture
def client() -> LinkClient:
    return LinkClient()


@pytest.fixture
def link(client: LinkClient, lost: Lost) -> ForwardLink:
    return ForwardLink(
        client,
        ForwardDialler("127.0.0.1:1", "n1", "life", "n0", None, bytes(16)),
        frame_size_max=1 << 20,
        open_bytes_max=2000,
        term=Term(5),
        applied=lambda: Index(7),
        lost=lost.take,
        owned=Owned(raise_it),
    )


def test_it_says_hello_first_and_holds_a_bounded_number_of_bytes(
    link: ForwardLink, client: LinkClient
) -> None:
    transport = Transport()
    link.send(Frame(310, 1, body=bytes(900)))
    with pytest.raises(ServiceNotAvailable, match="keep up"):
        link.send(Frame(310, 2, body=bytes(900)))
    link.connection_made(transport)
    hello, request = FrameDecoder().feed(transport.sent)
    assert (hello.code, request.opaque) == (31002, 1)
    link.data_received(encode_frame(response(request)))
    assert [frame.opaque for frame in client.frames()] == [1]
    link.send(Frame(310, 2, body=bytes(900)))
    link.send(Frame(310, 2, body=bytes(800)))


def test_broken_it_gives_back_everything_and_says_what_may_be_stored(
    link: ForwardLink, client: LinkClient, lost: Lost
) -> None:
    link.connection_made(Transport())
    link.send(Frame(310, 1, {"b": "T"}))
    link.send(Frame(30, 2))
    link.connection_lost(None)
    assert client.taken == []
    assert lost == [(1, False), (2, False)]
    assert lost.in_doubt() == [(1, 7, 5)], "what was applied, and in which term it was asked"
    assert read_doubt(lost.frames[0]).frame == Frame(310, 1, {"b": "T"}), "as it came"
    with pytest.raises(ServiceNotAvailable):
        link.send(Frame(30, 3))


def test_broken_it_tells_our_own_producers(
    link: ForwardLink, client: LinkClient, lost: Lost
) -> None:
    """They ask again by themselves, in order, and their numbers say what is stored."""
    link.connection_made(Transport())
    link.send(Frame(310, 1, version=OWN_VERSION))
    link.connection_lost(None)
    assert [(frame.opaque, frame.code) for frame in client.frames()] == [(1, 31904)]
    assert lost == []


def test_a_send_in_doubt_stays_in_doubt_since_its_first_try(link: ForwardLink, lost: Lost) -> None:
    link.connection_made(Transport())
    link.send(in_doubt(Frame(310, 1), Index(3), Term(2)))
    link.connection_lost(None)
    assert lost.in_doubt() == [(1, 3, 5)]


def test_an_earlier_release_that_cannot_look_leaves_the_outcome_unknown(
    link: ForwardLink, client: LinkClient, lost: Lost
) -> None:
    link.connection_made(Transport())
    asked = in_doubt(Frame(310, 1), Index(3), Term(2))
    link.send(asked)
    link.data_received(encode_frame(response(asked, 3)))
    assert [(frame.opaque, frame.code) for frame in client.frames()] == [(1, 14)]
    assert lost == []


def test_never_opened_it_gives_back_everything(
    link: ForwardLink, client: LinkClient, lost: Lost
) -> None:
    link.send(Frame(310, 1))
    link.failed()
    assert lost == [(1, False)]
    assert client.taken == []


def test_what_was_not_written_yet_is_no_unknown_outcome(
    link: ForwardLink, client: LinkClient, lost: Lost
) -> None:
    """Another node leads while the link is still being opened, or does not take more."""
    link.send(Frame(310, 1))
    link.close()
    assert lost == [(1, True)]
    assert client.taken == []


def test_a_full_link_gives_back_what_it_had_not_taken(
    link: ForwardLink, client: LinkClient, lost: Lost
) -> None:
    link.connection_made(Transport())
    link.send(Frame(310, 1))
    link.pause_writing()
    link.send(Frame(310, 2))
    link.close()
    assert lost == [(1, True), (2, True)]
    assert lost.in_doubt() == [(1, 7, 5)]


def test_another_leader_takes_the_requests_over_at_once(link: ForwardLink, lost: Lost) -> None:
    link.connection_made(Transport())
    link.send(Frame(11, 7))
    link.close()
    assert lost == [(7, True)]


async def test_who_led_still_answers_the_sends_it_was_given(
    link: ForwardLink, client: LinkClient, lost: Lost
) -> None:
    """Not "unknown": a client sends such a message again, and it would be there twice."""
    transport = Transport()
    link.connection_made(transport)
    requests = [Frame(310, 1), Frame(11, 2), Frame(310, 3)]
    for request in requests:
        link.send(request)
    link.leave()
    link.leave()
    assert lost == [(2, True)], "what is no send is asked again at once"
    for request in requests[:2]:
        link.data_received(encode_frame(response(request)))
    assert [(frame.opaque, frame.code) for frame in client.frames()] == [(1, 0)]
    assert transport.reading
    link.data_received(encode_frame(response(requests[2])))
    assert [frame.opaque for frame in client.frames()] == [1, 3]
    assert not transport.reading, "closed: nothing is owed any more"
    assert lost == [(2, True)]


async def test_who_led_and_does_not_answer_is_not_waited_for_long(
    link: ForwardLink, client: LinkClient, lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "DOUBT_SECONDS", 0.01)
    monkeypatch.setattr(forward, "LEAVE_SECONDS_MAX", 0.05)
    link.connection_made(Transport())
    own, foreign = Frame(310, 1, version=OWN_VERSION), Frame(310, 2)
    link.send(own)
    link.send(foreign)
    link.leave()
    assert (lost, client.taken) == ([], [])
    await until(lambda: lost)
    assert lost.in_doubt() == [(2, 7, 5)], "the next leader looks for it"
    link.data_received(encode_frame(response(foreign)))
    assert client.taken == [], "the next leader's answer counts"
    await until(lambda: client.taken)
    assert [(frame.opaque, frame.code) for frame in client.frames()] == [(1, 31904)]


@pytest.mark.parametrize("version", [OWN_VERSION, 479])
async def test_a_send_that_was_refused_for_not_leading_is_asked_again(
    link: ForwardLink, client: LinkClient, lost: Lost, version: int
) -> None:
    link.connection_made(Transport())
    requests = [Frame(310, number, version=version) for number in (1, 2, 3)]
    for request in requests:
        link.send(request)
    link.data_received(encode_frame(refusal(requests[0], NotLeader(""))))
    assert (lost, client.taken) == ([(1, False)], [])
    link.leave()
    link.data_received(encode_frame(refusal(requests[1], NotLeader("", "127.0.0.1:2"))))
    assert lost == [(1, False), (2, True)]
    link.data_received(encode_frame(refusal(requests[2], ServiceNotAvailable("full"))))
    assert [frame.opaque for frame in client.frames()] == [3], "another reason is the client's"


async def test_a_link_that_is_not_open_yet_is_left_at_once(link: ForwardLink, lost: Lost) -> None:
    link.send(Frame(310, 1))
    link.leave()
    assert (lost, link.closed) == ([(1, True)], True)


def test_a_closed_client_gets_nothing(link: ForwardLink, client: LinkClient, lost: Lost) -> None:
    link.connection_made(Transport())
    link.send(Frame(310, 1))
    client.closed = True
    link.close()
    assert (client.taken, lost) == ([], [])


def test_it_is_not_read_from_while_its_client_does_not_read(
    link: ForwardLink, client: LinkClient
) -> None:
    transport = Transport()
    link.connection_made(transport)
    client.is_paused = True
    link.data_received(encode_frame(Frame(40, 1)))
    assert not transport.reading
    client.calls.pop()()
    assert transport.reading


def links_to(leadership: Any, address: str = "127.0.0.1:1") -> ForwardLinks:
    config: Any = SimpleNamespace(
        peers={"n0": address}, tls_mode="disabled", node_id="n1", cluster_secret=None,
        frame_size_max=1 << 20, leader_wait_bytes_max=2000, leader_wait_seconds=0.8,
        source_host=None,
    )  # fmt: skip
    return ForwardLinks(config, Owned(raise_it), leadership, applied=lambda: Index(7))


async def test_the_links_of_another_leadership_are_left_and_not_closed(
    client: LinkClient, lost: Lost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader that was still answers, also when it leads again, in another term."""
    left: list[str] = []
    monkeypatch.setattr(ForwardLink, "leave", lambda link: left.append("left"))
    monkeypatch.setattr(ForwardLink, "close", lambda link: left.append("closed"))
    leadership: Any = SimpleNamespace(term=Term(5))
    links = links_to(leadership)
    link_client: Any = client
    links.send(link_client, Frame(310, 1), "n0", lambda *given_back: None)
    links.lead_by("n0")
    assert left == [], "the same leadership"
    leadership.term = Term(6)
    links.lead_by("n0")
    assert left == ["left"]
    await links.close()


@pytest.mark.parametrize("opens", [True, False])
async def test_a_leader_whose_port_is_not_open_yet_is_asked_until_it_is(
    client: LinkClient, opens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that came back and won the election opens its port when its no-op is applied.

    No change of the leader comes after that: requests that the refused link gave back would wait
    until `leader_wait_seconds` is over, and be refused.
    """
    heard: list[bytes] = []
    tries: list[str] = []
    connect = ForwardLinks._connect_once

    async def counted(self: ForwardLinks, link: ForwardLink, address: str) -> None:
        tries.append(address)
        await connect(self, link, address)

    monkeypatch.setattr(ForwardLinks, "_connect_once", counted)
    with socket.create_server(("127.0.0.1", 0)) as held:
        address = f"127.0.0.1:{held.getsockname()[1]}"
    links = links_to(SimpleNamespace(term=Term(5)), address)
    given_back: list[tuple[int, bool]] = []
    link_client: Any = client

    def again(_: object, frames: Sequence[Frame], moved: bool) -> None:
        given_back.extend((frame.opaque, moved) for frame in frames)

    async def leader(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1 << 16))
        writer.close()

    links.send(link_client, Frame(310, 1), "n0", again)
    await until(lambda: len(tries) > 2)
    assert given_back == []
    if opens:
        host, port = address.split(":")
        async with await asyncio.start_server(leader, host, int(port)):
            await until(lambda: heard)
            await links.close()
    else:
        await until(lambda: given_back)
        assert given_back == [(1, False)]
        await links.close()


async def test_many_clients_dial_a_closed_port_no_more_often_than_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of their links dials again, the others wait for it: the loop that dials also elects."""
    tries: list[str] = []

    async def refused(self: ForwardLinks, link: ForwardLink, address: str) -> None:
        tries.append(address)
        raise ConnectionRefusedError("closed")

    monkeypatch.setattr(ForwardLinks, "_connect_once", refused)
    links = links_to(SimpleNamespace(term=Term(5)))
    given_back: list[int] = []

    def again(_: object, frames: Sequence[Frame], moved: bool) -> None:
        given_back.extend(frame.opaque for frame in frames)

    for number in range(100):
        one: Any = LinkClient()
        links.send(one, Frame(310, number), "n0", again)
    await until(lambda: len(given_back) == 100)
    assert sorted(given_back) == list(range(100))
    assert len(tries) < 100 + 20, "each once, and one of them until its time was over"
    await links.close()
