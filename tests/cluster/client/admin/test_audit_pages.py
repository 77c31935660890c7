"""Pages of several audit logs while a broker name fails, and when it answers again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster.client.admin import audit
from cluster.client.admin.audit import AuditPage, newest_entries
from cluster.errors import ClusterError, RequestNotSupported, ServiceNotAvailable


class Logs:
    """Broker names with so many entries each, and those that fail, behind `audit_page`."""

    def __init__(self, **entries: int) -> None:
        self.entries, self.failing = entries, dict[str, ClusterError]()
        self.instance: Any = SimpleNamespace(routes=SimpleNamespace(registered=self._registered))

    async def _registered(self) -> dict[str, int]:
        return self.entries

    async def page(self, _: Any, broker: str, *, count: int, before: int | None) -> AuditPage:
        if broker in self.failing:
            raise self.failing[broker]
        end = self.entries[broker] if before is None else before
        first = max(0, end - count)
        rows = [{"broker": broker, "number": n, "at_ms": n} for n in reversed(range(first, end))]
        return AuditPage(rows, first or None, 0)


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    found = Logs(a=6, b=6)
    monkeypatch.setattr(audit, "audit_page", found.page)
    return found


async def test_a_name_that_failed_comes_back_with_all_its_entries(logs: Logs) -> None:
    logs.failing["b"] = ServiceNotAvailable("no leader; ask again")
    page = await newest_entries(logs.instance, 4)
    assert [row["broker"] for row in page.rows] == ["a"] * 4
    assert set(page.left_out) == {"b"}
    page = await newest_entries(logs.instance, 4, places=page.places)
    assert set(page.left_out) == {"b"}, "told on each page"
    assert page.places == {"b": None}
    logs.failing.clear()
    rows: list[dict[str, Any]] = []
    while page.places:
        page = await newest_entries(logs.instance, 4, places=page.places)
        rows += page.rows
    assert [(row["broker"], row["number"]) for row in rows] == [("b", n) for n in range(5, -1, -1)]


async def test_the_last_pages_of_a_name_that_fails_say_so(logs: Logs) -> None:
    """So who reads until there is no cursor ends with an error, not with a list that has a gap."""
    logs.failing["b"] = ServiceNotAvailable("no leader; ask again")
    page = await newest_entries(logs.instance, 9)
    with pytest.raises(ServiceNotAvailable):
        await newest_entries(logs.instance, 9, places=page.places)


async def test_a_release_without_an_audit_log_is_told_of_on_each_page(logs: Logs) -> None:
    logs.failing["b"] = RequestNotSupported("not known; upgrade it")
    places, pages = None, 0
    while places != {}:
        page = await newest_entries(logs.instance, 4, places=places)
        assert set(page.left_out) == {"b"}
        places, pages = page.places, pages + 1
    assert pages == 2
