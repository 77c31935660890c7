"""Quotas of accounts on a clock of the test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.core.access.account_rows import logged_row
from cluster.core.access.accounts import AccountsError, read_account
from cluster.core.access.quota import CLOSED_KEPT, NAMED_MAX, OTHERS, Quota, QuotaExceeded, Quotas

ROW = {"accessKey": "writer", "secretKey": "of-a-writer"}


class Clock:
    """Seconds that the test says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def taken(quotas: Quotas, quota: Quota, count: int, messages: int = 1, size: int = 10) -> int:
    """Sends of so many that were taken."""
    found = 0
    for _ in range(count):
        try:
            quotas.check_send("writer", quota)
        except QuotaExceeded:
            continue
        quotas.count_send("writer", quota, messages, size)
        found += 1
    return found


def test_a_second_has_its_messages_and_no_more(clock: Clock) -> None:
    quotas, quota = Quotas(clock), Quota(messages=5)
    assert taken(quotas, quota, 9) == 5
    clock.now += 0.2
    assert taken(quotas, quota, 9) == 1
    clock.now += 60
    assert taken(quotas, quota, 9) == 5, "quiet time is not saved up"
    clock.now -= 10
    assert taken(quotas, quota, 9) == 0
    assert quotas.refused == {"writer": 4 + 8 + 4 + 9}


def test_in_the_long_run_the_rate_is_the_quotas(clock: Clock) -> None:
    quotas, quota = Quotas(clock), Quota(messages=100, bytes=5_000)
    found = 0
    for _ in range(1_000):  # 10 s
        clock.now += 0.01
        found += taken(quotas, quota, 3, size=100)
    assert 500 <= found <= 550, "50 of 100 bytes a second, and one second's worth at the start"


def test_a_message_larger_than_a_seconds_bytes_goes_through_and_is_paid_for(clock: Clock) -> None:
    quotas, quota = Quotas(clock), Quota(bytes=100)
    assert taken(quotas, quota, 2, size=1_000) == 1
    clock.now += 8.9
    assert taken(quotas, quota, 1, size=1) == 0
    clock.now += 0.2
    assert taken(quotas, quota, 1, size=1) == 1


def test_a_batch_counts_its_messages(clock: Clock) -> None:
    quotas, quota = Quotas(clock), Quota(messages=10)
    assert taken(quotas, quota, 3, messages=10) == 1


def test_what_is_refused_takes_nothing(clock: Clock) -> None:
    quotas, quota = Quotas(clock), Quota(messages=1_000, bytes=10)
    assert taken(quotas, quota, 500, size=10) == 1
    clock.now += 1
    assert taken(quotas, Quota(messages=1_000, bytes=10), 1, messages=999, size=10) == 1


def test_accounts_do_not_slow_each_other_down(clock: Clock) -> None:
    quotas, quota = Quotas(clock), Quota(messages=1)
    assert taken(quotas, quota, 100) == 1
    quotas.check_send("another", quota)


def test_a_changed_quota_counts_at_once(clock: Clock) -> None:
    quotas = Quotas(clock)
    assert taken(quotas, Quota(messages=1), 9) == 1
    assert taken(quotas, Quota(messages=3), 9) == 3
    quotas.keep(lambda key: False)
    assert taken(quotas, Quota(messages=1), 9) == 1


def test_connections_are_counted_once_and_as_long_as_they_are_open() -> None:
    quotas, quota = Quotas(lambda: 0.0), Quota(connections=2)
    first, second, third = (SimpleNamespace(closed=False, name=n) for n in range(3))
    hashed: list[Any] = [_Connection(one) for one in (first, second, third)]
    for one in (hashed[0], hashed[1], hashed[0]):
        quotas.take_connection("writer", quota, one)
    with pytest.raises(QuotaExceeded, match="2 connections to a node are its quota"):
        quotas.take_connection("writer", quota, hashed[2])
    quotas.take_connection("another", quota, hashed[2])
    hashed[0].closed = True
    quotas.take_connection("writer", quota, hashed[2])
    quotas.take_connection("writer", Quota(connections=1), hashed[1])  # it was there before


def test_closed_connections_are_not_kept_until_the_quota_is_reached() -> None:
    quotas, quota = Quotas(lambda: 0.0), Quota(connections=100_000)
    for _ in range(1_000):
        connection = _Connection(SimpleNamespace(closed=False))
        quotas.take_connection("writer", quota, connection)
        connection.closed = True
    assert len(quotas._uses["writer"].connections) <= 2 * CLOSED_KEPT


class _Connection:
    """Compared by identity."""

    def __init__(self, of: Any) -> None:
        self.closed = of.closed


def test_series_are_bounded() -> None:
    quotas, quota = Quotas(lambda: 0.0), Quota(messages=1)
    for number in range(NAMED_MAX + 30):
        for _ in range(2):
            try:
                quotas.check_send(f"account-{number}", quota)
            except QuotaExceeded:
                continue
            quotas.count_send(f"account-{number}", quota, 1, 1)
    assert len(quotas.refused) == NAMED_MAX + 1
    assert quotas.refused[OTHERS] == 30


def test_rows_have_quotas_or_none() -> None:
    assert read_account(ROW).quota is None
    row = logged_row({**ROW, "maxMessages": 7, "maxConnections": 2, "maxBytes": None})
    assert row == {**ROW, "maxMessages": 7, "maxConnections": 2}
    assert read_account(row).quota == Quota(7, None, 2)


@pytest.mark.parametrize("value", [0, -1, "7", True, 1.5, 1 << 41, [7]])
def test_what_is_no_quota_is_refused(value: object) -> None:
    with pytest.raises(AccountsError, match="maxBytes"):
        read_account({**ROW, "maxBytes": value})
