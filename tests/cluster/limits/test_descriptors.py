"""Clients never get the descriptors that a node needs for its own files (descriptors.py)."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from cluster.limits import descriptors
from cluster.limits.descriptors import RESERVE

SetLimits = Callable[[int, int], None]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> SetLimits:
    """Sets what the process would be told of its limits (soft, hard)."""
    present = [1024, 4096]

    def set_limit(_kind: int, wanted: tuple[int, int]) -> None:
        present[:] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _kind: tuple(present))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    return lambda soft, hard: set_limit(0, (soft, hard))


def test_limit_is_raised_as_far_as_is_allowed(limits: SetLimits) -> None:
    limits(1024, 4096)
    assert descriptors.raise_limit() == 4096
    limits(1024, resource.RLIM_INFINITY)
    assert descriptors.raise_limit() == descriptors.WANTED
    limits(descriptors.WANTED * 2, resource.RLIM_INFINITY)
    assert descriptors.raise_limit() == descriptors.WANTED * 2, "never lowered"


def test_low_limit_is_said_with_what_to_do(
    limits: SetLimits, caplog: pytest.LogCaptureFixture
) -> None:
    limits(256, 256)
    descriptors.raise_limit()
    assert "may have 256 files open, so at most 128 clients connect; raise" in caplog.text


@pytest.mark.parametrize("limit", [64, 129, 256, 300, 1024, 1 << 20])
def test_reserve_is_kept_and_clients_get_the_rest(limits: SetLimits, limit: int) -> None:
    limits(limit, limit)
    share = descriptors.client_share(limit)
    assert 0 < share < limit
    assert limit - share >= min(RESERVE, limit // 2)
    assert descriptors.admits(share - 1)
    assert not descriptors.admits(share)


@pytest.mark.parametrize("limit", [256, 1024, 1 << 20])
def test_connections_accepted_in_one_go_fit_into_the_reserve(limits: SetLimits, limit: int) -> None:
    limits(limit, limit)
    assert descriptors.backlog() < limit - descriptors.client_share(limit)


@pytest.mark.parametrize(("limit", "waiting"), [(1024, 64), (4096, 256), (1 << 16, 1024)])
def test_clients_that_come_all_at_once_wait_to_be_accepted(
    limits: SetLimits, limit: int, waiting: int
) -> None:
    """The kernel drops calls beyond the backlog, and a client calls again after a second."""
    limits(limit, limit)
    assert descriptors.backlog() == waiting
