"""The stamps of seals: a client whose clock is wrong asks again as the broker says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cluster.client import Account
from cluster.client.connection.connection import Call, Waiter
from cluster.client.connection.signed_connection import CORRECTION_MS_MAX, SignedConnection
from cluster.core.access.seal import Seal, read_seal
from cluster.errors import SealStale
from cluster.protocol.frames import Frame, decode_frame, encode_frame, refusal, response
from cluster.protocol.send_own import SendEncoder

NOW = 1_700_000_000_000
Answer = Callable[[Seal], SealStale | None]


class Asked(SignedConnection):
    """A connection whose broker judges each seal with `answer`; what it was asked."""

    def __init__(self, answer: Answer) -> None:
        account = Account("orders", "orders-secret")
        super().__init__("x:1", lambda *_: None, lambda _: None, account, lambda: NOW)
        self.is_open, self.seals, self._judge = True, list[Seal](), answer

    def post(self, opaque: int, frame: bytes, waiter: Waiter) -> None:
        self.waiting[opaque] = waiter
        request = decode_frame(frame)
        seal = read_seal(request.ext)
        assert seal is not None
        self.seals.append(seal)
        error = self._judge(seal)
        answer = response(request) if error is None else refusal(request, error)
        asyncio.get_running_loop().call_soon(self.data_received, encode_frame(answer))


def takes(time_ms: int) -> Answer:
    """A broker whose clock says `time_ms`, and that takes no other stamp."""
    return lambda seal: None if seal.stamp_ms == time_ms else SealStale("no", time_ms)


@pytest.mark.parametrize("error_ms", [-14 * 60_000, -2000, 2000, 14 * 60_000])
async def test_a_request_is_sealed_again_with_the_brokers_time(error_ms: int) -> None:
    connection = Asked(takes(NOW + error_ms))
    await connection.ask(17, {"topic": "T"}, time_limit=5)
    await connection.ask(17, {"topic": "T"}, time_limit=5)
    assert [seal.stamp_ms - NOW for seal in connection.seals] == [0, error_ms, error_ms]
    assert len({seal.nonce for seal in connection.seals}) == 3


async def test_all_requests_of_one_turn_are_asked_again() -> None:
    connection = Asked(takes(NOW + 5000))
    await asyncio.gather(*(connection.ask(17, {"n": str(n)}, time_limit=5) for n in range(5)))
    assert len(connection.seals) == 10


async def test_a_refused_send_tells_the_time_for_the_next_one() -> None:
    connection = Asked(takes(NOW - 3000))
    encoder = SendEncoder(producer_group="P", topic="T", queue_id=0, broker_name="b")
    answers = []
    for _ in range(2):
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        connection.post_send(encoder, b"", b"body", NOW, Call(future))
        answers.append((await future).code)
    assert answers == [31906, 0]


@pytest.mark.parametrize("error_ms", [-CORRECTION_MS_MAX - 1, CORRECTION_MS_MAX + 1])
async def test_a_time_that_is_far_off_is_not_believed(
    error_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Who could make a client seal for tomorrow could keep the request until then."""
    connection = Asked(takes(NOW + error_ms))
    for _ in range(2):
        with pytest.raises(SealStale) as found:
            await connection.ask(17, {"topic": "T"}, time_limit=5)
        assert found.value.stamp_ms == NOW + error_ms
    assert [seal.stamp_ms for seal in connection.seals] == [NOW, NOW]
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "clock" in warnings[0].getMessage()


async def test_it_asks_again_when_its_clock_is_right() -> None:
    """The stamp was of before a new leader began; the time that it tells is the client's own."""
    answers = iter([SealStale("old", NOW), None, SealStale("old", NOW), None])
    connection = Asked(lambda _: next(answers))
    for _ in range(2):
        await connection.ask(17, {}, time_limit=5)
    assert len(connection.seals) == 4


async def test_it_asks_twice_and_not_for_ever() -> None:
    times = iter(range(NOW + 1, NOW + 100))
    connection = Asked(lambda _: SealStale("no", next(times)))
    with pytest.raises(SealStale):
        await connection.ask(17, {}, time_limit=5)
    assert len(connection.seals) == 2


@pytest.mark.parametrize("said", ["", "12345", "17000000000OO", "-700000000000", "9" * 14])
async def test_a_time_that_cannot_be_read_changes_nothing(said: str) -> None:
    connection = Asked(lambda _: SealStale("no"))
    connection.told_time(Frame(31906, 1, {"sealTime": said}))
    with pytest.raises(SealStale):
        await connection.ask(17, {}, time_limit=5)
    assert [seal.stamp_ms for seal in connection.seals] == [NOW]
