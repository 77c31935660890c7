"""A signature is worth one request: what is repeated, by whom, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cluster.core.access.signature import sign
from cluster.core.access.single_use import REPEATABLE, SignatureWindow, UsedBefore, WindowFull
from cluster.protocol.codes import RequestCode as Code

TOPIC = {"AccessKey": "orders", "topic": "T"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Window:
    """A window, and requests that are signed for it."""

    def __init__(self, entries_max: int = 10) -> None:
        self.clock = Clock()
        self.window = SignatureWindow(
            self.clock, seconds=60, seconds_min=40, entries_max=entries_max
        )

    def ask(
        self,
        code: int,
        ext: Mapping[str, str] = TOPIC,
        body: bytes = b"",
        host: str | None = "10.0.0.1",
    ) -> None:
        signed = {**ext, "Signature": sign(ext, body, "secret")}
        self.window.admit(code, signed, len(body), host)


def test_a_look_is_no_deletion() -> None:
    """202 and 215 have the same field, so a stock client signs both in the same way."""
    asks = Window()
    asks.ask(Code.GET_TOPIC_STATS_INFO)
    with pytest.raises(UsedBefore, match="used for request 202"):
        asks.ask(Code.DELETE_TOPIC_IN_BROKER)
    asks.ask(Code.GET_TOPIC_STATS_INFO)
    asks.clock.now = 61
    asks.ask(Code.DELETE_TOPIC_IN_BROKER)
    with pytest.raises(UsedBefore, match="used for request 215"):
        asks.ask(Code.GET_TOPIC_STATS_INFO)


@pytest.mark.parametrize(
    ("ext", "body"),
    [
        ({"AccessKey": "orders", "topi": "T"}, b"body"),
        ({"AccessKey": "orders", "topic": "Tb"}, b"ody"),
        ({"AccessKey": "orders", "topic": "T", "zz": "body"}, b""),
        ({"AccessKey": "orders", "topic": "T", "zz": ""}, b"body"),
    ],
)
@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE])
def test_borders_of_fields_do_not_move(code: int, ext: dict[str, str], body: bytes) -> None:
    asks = Window()
    asks.ask(code, TOPIC, b"body")
    with pytest.raises(UsedBefore, match="other fields"):
        asks.ask(code, ext, body)


def test_stock_clients_share_a_signature_between_looks_and_between_locks() -> None:
    asks = Window()
    for code in (Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET, Code.GET_MAX_OFFSET):
        asks.ask(code)
    for code in (Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.LOCK_BATCH_MQ):
        asks.ask(code, {}, b"queues")
    assert len(asks.window) == 2, "one signature for the looks, one for the locks"


@pytest.mark.parametrize("code", sorted(REPEATABLE))
def test_what_repeats_may_come_from_anywhere(code: int) -> None:
    asks = Window()
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
        asks.ask(code, host=host)
    assert len(asks.window) == 1, "it is remembered, and let through"


@pytest.mark.parametrize("code", sorted(set(Code) - REPEATABLE))
def test_a_change_is_repeated_by_its_own_client_only(code: int) -> None:
    asks = Window()
    asks.ask(code)
    asks.ask(code)
    with pytest.raises(UsedBefore, match=r"another client, at 10\.0\.0\.1"):
        asks.ask(code, host="10.0.0.2")


def test_a_full_window_lets_no_change_through_unseen() -> None:
    asks = Window(entries_max=2)
    asks.ask(Code.SEND_MESSAGE_V2, body=b"1")
    asks.clock.now = 30
    asks.ask(Code.SEND_MESSAGE_V2, body=b"2")
    with pytest.raises(WindowFull, match="try again"):
        asks.ask(Code.SEND_MESSAGE_V2, body=b"3")
    asks.ask(Code.PULL_MESSAGE, body=b"4")
    asks.ask(Code.SEND_MESSAGE_V2, body=b"1")
    assert len(asks.window) == 2
    asks.clock.now = 40
    asks.ask(Code.SEND_MESSAGE_V2, body=b"3")
    assert len(asks.window) == 2


def test_where_it_is_passed_on_a_thief_takes_no_signature() -> None:
    """A follower does not say whose it is; whoever is judged first has it."""
    asks = Window()
    asks.ask(Code.SEND_MESSAGE_V2, host=None)
    asks.ask(Code.SEND_MESSAGE_V2, host="10.0.0.1")
    asks.ask(Code.SEND_MESSAGE_V2, host=None)
    with pytest.raises(UsedBefore):
        asks.ask(Code.SEND_MESSAGE_V2, host="10.0.0.2")
