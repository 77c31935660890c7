"""A change of accounts on several broker names, some of which have it already or have it not."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.client.admin import account_admin
from cluster.errors import NotFound, SendTimeout


class Names:
    """Broker names and the access keys that each has, behind `ask_leader`."""

    def __init__(self, **had: set[str]) -> None:
        self.had = had
        self.instance: Any = SimpleNamespace(routes=SimpleNamespace(registered=self._registered))

    async def _registered(self) -> dict[str, set[str]]:
        return self.had

    async def ask(self, _: Any, broker: str, *__: Any, body: bytes) -> None:
        asked = json.loads(body)
        keys = [*asked["delete"], *(row["accessKey"] for row in asked["alter"])]
        if missing := set(keys) - self.had[broker]:
            raise NotFound(f"the log has no account {sorted(missing)[0]}")
        self.had[broker] -= set(asked["delete"])


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    found = Names(a=set(), b={"writer", "reader"}, c={"writer"})
    monkeypatch.setattr(account_admin, "ask_leader", found.ask)
    return found


async def test_a_deletion_is_finished_where_a_name_has_the_account_no_more(names: Names) -> None:
    """As after a deletion that failed behind the first name."""
    assert await account_admin.change_accounts(names.instance, delete=["writer"]) == ["b", "c"]
    assert names.had == {"a": set(), "b": {"reader"}, "c": set()}
    with pytest.raises(NotFound):
        await account_admin.change_accounts(names.instance, delete=["writer"])


async def test_an_account_is_disabled_on_each_name_that_has_it(names: Names) -> None:
    row = {"accessKey": "writer", "status": "disable"}
    assert await account_admin.change_accounts(names.instance, alter=[row]) == ["b", "c"]


async def test_one_of_several_that_is_missing_ends_the_change(names: Names) -> None:
    """A name does all of it or nothing, so it may not be passed over: others of it are there."""
    with pytest.raises(NotFound):
        await account_admin.change_accounts(names.instance, delete=["writer", "reader"])
    assert names.had["c"] == {"writer"}


async def test_the_names_that_did_are_known_when_a_later_one_fails(names: Names) -> None:
    names.had["a"] = {"writer", "reader"}
    done: list[str] = []
    with pytest.raises(NotFound) as ended:
        await account_admin.change_accounts(names.instance, delete=["writer", "reader"], done=done)
    assert done == ["a", "b"]
    assert account_admin.may_be_changed(ended.value, done)
    assert not account_admin.may_be_changed(ended.value, [])
    assert account_admin.may_be_changed(SendTimeout("no answer; look"), [])
