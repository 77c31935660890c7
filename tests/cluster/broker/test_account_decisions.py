"""Changes of accounts are decided one at a time, without a broker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cluster.broker.access.accounts.requests import ChangeAccounts, change_accounts
from cluster.broker.kernel.net.decisions import Decision
from cluster.broker.kernel.write.state_writer import ACCOUNTS
from cluster.core.internal_topics import AccountsChanged
from cluster.errors import InvalidRequest, NotFound, ServiceNotAvailable

from .test_steps import Ports

CHIEF = {"accessKey": "chief-1", "secretKey": "k7Qm2-Zx9wB4", "admin": True}


def changed(ports: Ports, *put: dict[str, object], delete: tuple[str, ...] = ()) -> Decision:
    return change_accounts(cast(Any, ports), ChangeAccounts([], [], [*put], [*delete]))


def test_accounts_are_decided_one_change_at_a_time() -> None:
    ports = Ports()
    ports.state.level.value = 99
    (change,) = changed(ports, CHIEF).changes
    assert isinstance(change, AccountsChanged)
    assert [row["accessKey"] for row in change.put] == ["chief-1"]
    assert len(ports.state.accounts) == 0
    ports.writer.accounts_in_log.logged(1, frozenset({ACCOUNTS}))
    with pytest.raises(ServiceNotAvailable):
        changed(ports, CHIEF)


def test_accounts_that_are_refused_decide_nothing() -> None:
    ports = Ports()
    with pytest.raises(InvalidRequest):
        changed(ports, {"accessKey": "nobody-1", "secretKey": "k7Qm2-Zx9wB4"})
    with pytest.raises(NotFound):
        changed(ports, delete=("nobody",))
