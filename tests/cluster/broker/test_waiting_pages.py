"""One answer with messages that wait reads a bounded part of the log."""

from __future__ import annotations

from cluster.broker.admin.waiting_requests import PAGE_BYTES_MAX, _page


def test_large_records_end_a_page_before_its_count() -> None:
    size = PAGE_BYTES_MAX // 2 + 1
    rows = [{"position": number, "size": size} for number in range(10)]
    found, following = _page(iter(rows), 5)
    assert ([row["position"] for row in found], following) == ([0, 1], 2)
    found, following = _page(iter({"position": n, "size": 1} for n in range(5)), 5)
    assert (len(found), following) == (5, None)
    found, following = _page(iter({"position": n, "size": 1} for n in range(6)), 5)
    assert (len(found), following) == (5, 5)
