"""Chaos runs of a folder by the API: pages, verdicts, reports, and nothing beside that folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cluster.console.api import chaos_runs

from .conftest import TOKENS, MakeWorld

PASSED = {
    "verdict": "valid",
    "acked": 5,
    "lost": 0,
    "doubled": 0,
    "violations": 0,
    "seed": 7,
    "faults": {"carried_out": 3, "took_effect": 2},
}


def make_run(folder: Path, name: str, at: int, said: Any, report: str | None = None) -> None:
    (folder / name).mkdir(parents=True)
    path = folder / name / "verdict.json"
    path.write_text(said if isinstance(said, str) else json.dumps(said))
    os.utime(path, (at, at))
    if report is not None:
        (folder / name / "report.html").write_text(report)


async def test_without_a_folder_there_is_no_run(make_world: MakeWorld) -> None:
    async with make_world() as world:
        found = await world.get("/api/v1/chaos-runs", "ChaosRunPage")
        assert (found["folder"], found["runs"], found["cursor"]) == (None, [], None)
        status, _ = await world.call("GET", "/api/v1/chaos-runs/a/report")
        assert status == 404


async def test_runs_the_newest_first_in_pages(make_world: MakeWorld, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make_run(runs, "old", 1_000, PASSED, "<p>old</p>")
    make_run(runs, "a demo", 3_000, {"passed": False, "lost": 2, "acked": True})
    make_run(runs, "twin", 3_000, {"verdict": "unknown", "faults": 3})
    make_run(runs, "half", 4_000, '{"verdict": "va')
    make_run(runs, "list", 5_000, [1])
    (runs / "running").mkdir()
    (runs / "latest").symlink_to("old")
    async with make_world(chaos_runs=runs) as world:
        found: list[Any] = []
        cursor: dict[str, str] = {}
        while True:  # until a page has no cursor
            page = await world.get("/api/v1/chaos-runs", "ChaosRunPage", limit=2, **cursor)
            found += page["runs"]
            if page["cursor"] is None:
                break
            cursor = {"cursor": page["cursor"]}
        assert [row["run"] for row in found] == ["twin", "a demo", "old"]
        assert [row["verdict"] for row in found] == ["unknown", "invalid", "valid"]
        assert [row["has_report"] for row in found] == [False, False, True]
        assert (found[1]["lost"], found[1]["acked"]) == (2, None)
        old = found[2]
        assert (old["acked"], old["faults"], old["took_effect"], old["seed"]) == (5, 3, 2, 7)
        assert old["at_ms"] == 1_000_000
        assert page["command"] == f"dledger chaos serve {runs}"
        for wrong in ("W10", "x", "WzEsMl0"):
            status, _ = await world.call("GET", "/api/v1/chaos-runs", params={"cursor": wrong})
            assert status == 400


async def test_reports_are_given_as_they_are(
    make_world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    make_run(runs, "one", 1, PASSED, "<script>alert(1)</script>")
    make_run(runs, "big", 2, PASSED, "x" * 1000)
    monkeypatch.setattr(chaos_runs, "REPORT_BYTES_MAX", 100)
    async with make_world(chaos_runs=runs) as world:
        found = await world.get("/api/v1/chaos-runs/one/report", "ChaosReport")
        assert found == {"run": "one", "html": "<script>alert(1)</script>"}
        async with world.http.get(f"{world.base}/api/v1/chaos-runs/one/report") as answer:
            assert answer.content_type == "application/json", "no browser runs it here"
        status, error = await world.call("GET", "/api/v1/chaos-runs/big/report")
        assert (status, error["error"]["id"]) == (413, "report-too-large")


@pytest.mark.parametrize("name", ["..%2Fsecret", "..", "%2Fetc", "link", "inner", "a%00b", "none"])
async def test_nothing_beside_the_folder_is_read(
    make_world: MakeWorld, tmp_path: Path, name: str
) -> None:
    runs = tmp_path / "runs"
    make_run(tmp_path, "secret", 1, PASSED, "secret")
    make_run(runs, "inner", 1, PASSED)
    (runs / "inner" / "report.html").symlink_to(tmp_path / "secret" / "report.html")
    (runs / "link").symlink_to(tmp_path / "secret")
    async with make_world(chaos_runs=runs) as world:
        url = f"{world.base}/api/v1/chaos-runs/{name}/report"
        async with world.http.get(url) as answer:
            assert answer.status in (400, 404)
            assert "secret" not in (await answer.text()).replace("..%2Fsecret", "").replace(
                "../secret", ""
            )
        page = await world.get("/api/v1/chaos-runs", "ChaosRunPage")
        assert [row["run"] for row in page["runs"]] == ["inner"]


async def test_a_folder_that_is_not_there_is_told(make_world: MakeWorld, tmp_path: Path) -> None:
    async with make_world(chaos_runs=tmp_path / "nowhere") as world:
        status, error = await world.call("GET", "/api/v1/chaos-runs")
        assert (status, error["error"]["id"]) == (503, "runs-unreadable")
        assert "admin.chaos_runs" in error["error"]["try"]


async def test_a_viewer_may_look(make_world: MakeWorld, tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "one", 1, PASSED, "report")
    headers = {"Authorization": f"Bearer {TOKENS['viewer']}"}
    async with make_world(tokens=True, chaos_runs=tmp_path / "runs") as world:
        url = f"{world.base}/api/v1/chaos-runs/one/report"
        async with world.http.get(url) as answer:
            assert answer.status == 401
        async with world.http.get(url, headers=headers) as answer:
            assert (await answer.json())["html"] == "report"
