"""Many run folders in a browser: newest first, and nothing outside the folder is given out."""

from __future__ import annotations

import http.client
import os
import threading
from pathlib import Path

from chaos.report.page import write_report
from chaos.report.serve import make_server, render_index
from tests.chaos.report.folders import write_folder
from tests.waiting import limit


def two_runs(runs: Path) -> None:
    first = write_folder(runs / "first")
    write_folder(runs / "second", [{"name": "lost-middle", "detail": "q0: gone"}])
    write_report(first)
    os.utime(first / "verdict.json", (1.0, 1.0))
    (runs / "latest").symlink_to("second")
    (runs / "broken").mkdir()
    (runs / "broken" / "verdict.json").write_text("{")


def test_finished_runs_are_listed_once_newest_first(tmp_path: Path) -> None:
    two_runs(tmp_path)
    text = render_index(tmp_path)
    assert text.count("<tr") == 1 + 2
    assert text.index(">second") < text.index(">first")
    assert '<a href="/first/report.html">' in text
    assert '<a href="/second/verdict.json">no report</a>' in text
    assert "<td>invalid</td><td>36</td><td>1</td>" in text


def test_a_folder_that_is_broken_hides_no_other(tmp_path: Path) -> None:
    two_runs(tmp_path)
    for number, text in enumerate(
        ('{"faults": null}', '{"faults": "x"}', '{"faults": [1]}', "[" * 100_000, '{"verdict": 1}')
    ):
        (tmp_path / f"odd{number}").mkdir()
        (tmp_path / f"odd{number}" / "verdict.json").write_text(text)
    (tmp_path / "surrogate").mkdir()
    (tmp_path / "surrogate" / "verdict.json").write_text('{"verdict": "\\ud800"}')
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")) / "verdict.json").write_text("{}")
    text = render_index(tmp_path)
    assert text.count("<tr") == 1 + 2 + 4 + 2
    assert '<a href="/%FF/verdict.json">' in text
    assert text.encode("utf-8", "replace")


def test_a_browser_gets_reports_and_nothing_from_elsewhere(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    two_runs(runs)
    (tmp_path / "secret").write_text("x")
    (runs / "first" / "leak").symlink_to(tmp_path / "secret")
    with make_server(runs, "127.0.0.1", 0) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            port = server.server_port
            assert "Chaos runs" in get(port, "/")[1]
            assert get(port, "/first/report.html")[1].startswith("<!doctype html>")
            assert get(port, "/latest/history.jsonl")[0] == 200
            for path in ("/first/leak", "/%2e%2e/secret", "/..%2fsecret", "/../secret", "/first/"):
                assert get(port, path)[0] == 404
            for path in ("/%00", "/" + "a" * 5000, "/%ff", "/first/" + "b" * 300):
                assert get(port, path)[0] == 404
            assert "Chaos runs" in get(port, "/?newest=1")[1]
        finally:
            server.shutdown()
            serving.join()


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=limit(5))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
