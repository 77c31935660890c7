"""The table of the log's accounts: an administrator stays, and older checkpoints are read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.core.access.account_table import AccountTable
from cluster.core.access.accounts import AccountsError
from cluster.core.apply import AppliedState

CHIEF = {"accessKey": "the-chief", "secretKey": "drawn-for-this", "admin": True}
SECOND = {**CHIEF, "accessKey": "the-second"}


def state(*rows: dict[str, Any]) -> AppliedState:
    made = AppliedState(())
    made.accounts.replay(rows, ())
    return made


@pytest.mark.parametrize(
    ("put", "delete"),
    [
        ([], ["the-chief"]),
        ([CHIEF], ["the-chief"]),
        ([{**CHIEF, "admin": False}], []),
        ([{**CHIEF, "status": "disable"}], []),
        ([{**SECOND, "status": "disable"}], ["the-chief"]),
        ([CHIEF, {**CHIEF, "admin": False}], []),
    ],
)
def test_no_change_leaves_the_log_without_an_administrator(
    put: list[dict[str, Any]], delete: list[str]
) -> None:
    table = AccountTable()
    table.replay([CHIEF], ())
    with pytest.raises(AccountsError, match="no administrator would be left"):
        table.check(put, delete)
    table.check([SECOND], ["the-chief"])


def test_a_checkpoint_without_accounts_is_as_the_version_before_wrote_it() -> None:
    written = json.loads(state().to_checkpoint())
    assert "accounts" not in written
    assert written["level"] == 0


def test_a_checkpoint_of_the_version_before_is_read() -> None:
    with_accounts, before = state(CHIEF), state().to_checkpoint()
    with_accounts.restore(before, lambda *_: True)
    assert len(with_accounts.accounts) == 0
    kept = state(CHIEF).to_checkpoint()
    with_accounts.restore(kept, lambda *_: True)
    assert with_accounts.accounts.rows() == [CHIEF]


def test_who_watches_hears_of_every_change() -> None:
    table, heard = AccountTable(), list[int]()
    table.watch(lambda: heard.append(len(table)))
    table.replay([CHIEF, SECOND], ())
    table.replay((), ["the-second"])
    table.restore(())
    assert heard == [2, 1, 0]
