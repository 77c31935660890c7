"""`scripts/bench messages`: options, turns, ratios, tables, the page; ours once in small size."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import psutil
import pytest

from cluster import Producer, Receipt, SendTimeout
from cluster.bench import interpreter
from cluster.bench.load import FullLoad
from cluster.commands.errors import CommandError
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame, FrameDecoder, encode_frame
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import decode_route
from tests.interop.harness import toolchains
from tests.peers import bars, messages, programs, report, servers
from tests.peers.spans import Span
from tests.waiting import limit, wait_until

DURABILITY = {bars.OURS: "F: ours", bars.NATS: "F: theirs"}


def sent(
    subject: str,
    mode: str,
    window: int,
    rate: float,
    disturbed: bool = False,
    size: int = 1024,
    failed: int = 0,
) -> dict[str, Any]:
    return {
        "round": 0, "subject": subject, "kind": bars.SEND, "mode": mode, "window": window,
        "body_size": size, "messages_per_second": rate, "p50_ms": 1000 * window / rate,
        "p99_ms": 2000 * window / rate, "server_cpu_us": 1e5 / rate, "client_cpu_us": 1.0,
        "others_share": 0.05, "disturbed": disturbed, "failed": failed,
    }  # fmt: skip


def of_kind(subject: str, kind: str, **figures: float) -> dict[str, Any]:
    named = {"round": 0, "subject": subject, "kind": kind, "mode": "", "window": 0, "body_size": 0}
    return {**named, "disturbed": False, **figures}


def limits(floor: float) -> dict[str, Any]:
    return of_kind(bars.OURS, bars.LIMITS, **dict.fromkeys(report.LIMITS, 1.0)) | {
        "floor_ms": floor,
        "date": "2026-11-20",
        "python": "CPython 3",
    }


ROWS = [
    limits(0.5),
    *(sent(bars.OURS, "single", 1024, rate) for rate in (100.0, 900.0, 300.0)),
    sent(bars.OURS, "single", 1024, 9_000.0, disturbed=True),
    sent(bars.NATS, "single", 1024, 100.0),
    sent(bars.OURS, "single", 1, 1_500.0),
    sent(bars.NATS, "single", 1, 1_000.0, disturbed=True),
    of_kind(bars.OURS, bars.START, seconds=1.5),
    of_kind(bars.OURS, bars.IDLE, resident_mb=49.0, idle_cores=0.02, others_share=0.0),
    {**sent(bars.OURS, "list", 0, 50.0), "kind": bars.CONSUME, "p50_ms": 0.0},
]


def ratios() -> dict[str, bars.Judged]:
    return {one.bar.what: one for one in report.judgement(ROWS)}


def test_a_disturbed_turn_counts_only_where_no_other_is() -> None:
    found = bars.cells(ROWS[1:])
    ours = found[bars.Key(bars.OURS, bars.SEND, "single", 1024, 1024)]
    assert (ours["messages_per_second"], ours["turns"], ours["disturbed"]) == (300.0, 3.0, 0.0)
    theirs = found[bars.Key(bars.NATS, bars.SEND, "single", 1, 1024)]
    assert (theirs["messages_per_second"], theirs["disturbed"]) == (1_000.0, 1.0)


def test_ratios_are_of_medians_and_only_of_what_was_measured() -> None:
    found = ratios()
    single = found["1,024 in flight, one request each ÷ NATS F"]
    assert (single.ratio, single.met, single.disturbed) == (3.0, True, False)
    memory = found["resident memory of a loaded node, MB"]
    assert (memory.ratio, memory.met) == (49.0, True)
    assert not found["idle CPU of three nodes, cores"].met
    assert "cold start to the first acknowledgement ÷ NATS F" not in found, "NATS was not started"
    assert "consume, lists ÷ Kafka" not in found


def test_one_of_two_bars_of_a_goal_is_enough() -> None:
    found = ratios()
    floor = found["or: one in flight, p50 ÷ floor (fdatasync, two round trips)"]
    peer = found["one in flight, p50 ÷ NATS F"]
    assert floor.ratio == pytest.approx(4 / 3)
    assert floor.met
    assert peer.ratio == pytest.approx(2 / 3)
    assert peer.disturbed
    slow = [row for row in ROWS if row["window"] != 1] + [
        sent(bars.OURS, "single", 1, 900.0),
        sent(bars.NATS, "single", 1, 1_000.0),
    ]
    assert not any(one.met for one in report.judgement(slow) if one.bar.goal == "one")
    assert any(one.met for one in report.judgement([limits(5.0), *slow]) if one.bar.goal == "one")


def test_the_table_has_medians_durability_limits_and_the_interpreter() -> None:
    said = report.text(ROWS, DURABILITY)
    assert "| ours | single | 1,024 | 1,024 | 300 | 0 | 3413.33 |" in said
    assert "| NATS F | single | 1 | 1,024 | 1,000 ! | 0 | 1.00 |" in said
    assert "| ours | F: ours | 1.5 | 49 | 0.020 |" in said
    assert "| 1,024 in flight, one request each ÷ NATS F | 3 | ≥ 2 | met |" in said
    assert "| idle CPU of three nodes, cores | 0.02 | ≤ 0.015 | missed |" in said
    assert "| one in flight, p50 ÷ NATS F | 0.667 ! | ≤ 0.75 | disturbed |" in said
    assert "| floor of one message in flight, ms | 0.5 | 0.5 to 0.5 |" in said
    assert "Python: CPython 3" in said


def test_a_ratio_of_a_cell_with_failed_sends_is_not_judged() -> None:
    """A rate is that of the acknowledged ones: with sends that failed it says little of the rest.

    One turn is enough: the median of the others would hide it.
    """
    rows = [*ROWS, sent(bars.NATS, "single", 1024, 100.0, failed=7)]
    said = report.text(rows, DURABILITY)
    assert "| NATS F | single | 1,024 | 1,024 | 100 ! | 7 | 10240.00 |" in said
    assert "| 1,024 in flight, one request each ÷ NATS F | 3 ! | ≥ 2 | sends failed |" in said
    met = [sent(bars.OURS, "single", 1024, 400.0), sent(bars.NATS, "single", 1024, 100.0)]
    assert report.is_met(met)
    assert not report.is_met([*met, sent(bars.NATS, "single", 1024, 100.0, failed=1)])


def test_a_bar_is_not_met_by_another_of_its_goal_that_cannot_be_trusted() -> None:
    sends = [sent(bars.OURS, "single", 1, 900.0, disturbed=True), sent(bars.NATS, "single", 1, 1e3)]
    assert [one.met for one in report.judgement([limits(5.0), *sends])] == [False, True]


def test_the_best_of_the_clients_cells_is_compared_with_and_the_limits_of_its_own_turns() -> None:
    rows = [
        sent(bars.OURS, "tasks", 64, 90.0),
        sent(bars.OURS, "batching", 1024, 100.0),
        sent(bars.OURS, "single", 1024, 180.0),
        sent(bars.OURS, "single", 1, 1_000.0),
        limits(1.0),
        limits(100.0) | {"subject": bars.NATS},
    ]
    found = {one.bar.goal: one.ratio for one in report.judgement(rows)}
    assert found["tasks"] == pytest.approx(0.5)
    assert found["one"] == pytest.approx(1.0), "not those of a turn of another minute"


def test_a_turn_that_breaks_off_is_told_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def turn(subject: messages.Subject, options: messages.Options) -> Iterator[dict[str, Any]]:
        yield of_kind(subject.name, bars.START, seconds=1.0)
        if subject.name == bars.KAFKA:
            raise RuntimeError("a broker does not come up")

    monkeypatch.setattr(messages, "_turn", turn)
    monkeypatch.setattr(messages, "chosen", lambda options: [
        messages.Subject(name, "", servers.ours, list) for name in (bars.KAFKA, bars.OURS)
    ])  # fmt: skip
    options = messages.Options(rounds=1, file=str(tmp_path / "runs" / "rows"))
    rows = messages.run(options, lambda text: None)
    assert [(row["subject"], row["kind"]) for row in rows] == [
        (bars.KAFKA, bars.START), (bars.KAFKA, bars.BROKEN), (bars.OURS, bars.START),
    ]  # fmt: skip
    assert "Kafka broke off in round 1: RuntimeError: a broker does not" in report.text(rows, {})
    assert not report.is_met(rows)


def test_a_failed_send_of_ours_is_counted_and_the_load_goes_on() -> None:
    receipt = Receipt(MessageQueue("t", "broker-a", 0), 0, 1, 1, 0, b"")

    class Failing:
        """Every third send fails, at once."""

        sends = 0

        def send_callback(self, topic: str, body: bytes, told: Callable[..., None]) -> None:
            self.sends += 1
            if self.sends % 3:
                asyncio.get_running_loop().call_soon(told, receipt, None)
            else:
                told(None, SendTimeout("late"))

    async def load() -> tuple[FullLoad, Failing]:
        producer = Failing()
        made = FullLoad(cast(Producer, producer), "t", 8, 16, lenient=True)
        await asyncio.wait_for(made.run(0.05), limit(30))
        return made, producer

    made, producer = asyncio.run(load())
    assert made.failed == producer.sends // 3 > 1
    assert made.failed + len(made.latencies) == producer.sends
    assert "late" in made.error


def test_the_drawing_has_a_bar_for_each_cell_as_long_as_its_rate() -> None:
    root = ElementTree.fromstring(report.svg(ROWS, DURABILITY))
    name = "{http://www.w3.org/2000/svg}"
    widths = [float(one.get("width", "")) for one in root.iter(f"{name}rect")][1:]
    assert widths == pytest.approx([report.BAR_AREA, report.BAR_AREA / 3, report.BAR_AREA,
                                    report.BAR_AREA * 2 / 3, report.BAR_AREA], abs=0.1)  # fmt: skip
    words = {one.text for one in root.iter(f"{name}text")}
    assert {"ours", "NATS F", "NATS F !", "ours (list)", "NATS F: F: theirs"} <= words


def test_only_what_is_between_the_markers_of_a_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Head\n\n{report.BEGIN}\nold\n{report.END}\n\ntail\n")
    report.into_page(page, "| new |", "scripts/bench messages rounds=1", "busy", "docs/a.svg")
    said = page.read_text()
    assert said.startswith(f"# Head\n\n{report.BEGIN}\n\n**busy**\n\nMeasured by ")
    assert "`scripts/bench messages rounds=1`" in said
    assert f"date: {report.NOT_RECORDED}." in said
    assert "![Messages a second](a.svg)" in said
    assert said.endswith(f"| new |\n\n![Messages a second](a.svg)\n\n{report.END}\n\ntail\n")
    assert "old" not in said
    page.write_text("no markers")
    with pytest.raises(CommandError, match="markers"):
        report.into_page(page, "", "", "", "")
    assert messages.main([f"page={page}"]) == 2, "said before forty minutes of measuring"
    assert messages.main([f"rows={tmp_path / 'none'}"]) == 2


def test_each_round_takes_every_subject_once_and_begins_with_another() -> None:
    options = messages.parsed(["rounds=2", "subjects=ours,nats,kafka"])
    order = [(number, subject.name) for number, subject in messages.turns(options)]
    assert order == [
        (0, bars.OURS), (0, bars.NATS), (0, bars.KAFKA),
        (1, bars.NATS), (1, bars.KAFKA), (1, bars.OURS),
    ]  # fmt: skip


def test_options_are_read_and_wrong_ones_are_named() -> None:
    options = messages.parsed(["windows=64", "batches=8", "subjects=java", "seconds=1"])
    (java,) = messages.chosen(options)
    assert java.name == bars.OURS_JAVA
    assert messages.windows_of(java, options) == [
        ("single", 64, 1024), ("batches", 8, 1024), ("single", 64, 128),
    ]  # fmt: skip
    noted = messages.parsed(["note=a first run, 80 % busy", "rows=7"])
    assert (noted.note, noted.rows) == ("a first run, 80 % busy", "7")
    with pytest.raises(CommandError, match="speed"):
        messages.parsed(["speed=1"])
    with pytest.raises(CommandError, match="rabbit"):
        messages.parsed(["subjects=rabbit"])
    every = messages.chosen(messages.parsed(["subjects=every"]))
    assert {one.name for one in every} - {one.name for one in messages.chosen(options)} >= {
        bars.KAFKA_FLUSH
    }
    assert bars.KAFKA_FLUSH not in {one.name for one in messages.chosen(messages.parsed([]))}


def test_each_bar_names_cells_that_the_default_run_measures() -> None:
    options = messages.parsed([])
    made = set()
    for subject in messages.chosen(options):
        made |= {
            bars.Key(subject.name, bars.SEND, *window)
            for window in messages.windows_of(subject, options)
        }
        made |= {bars.Key(subject.name, bars.CONSUME, mode, 0, 1024) for mode in subject.reads}
        made |= {bars.Key(subject.name, kind) for kind in (bars.START, bars.IDLE)}
    named = {key for bar in bars.BARS for key in (bar.ours, bar.other, *bar.best_of) if key}
    assert named <= made


def test_a_span_counts_the_work_of_its_servers() -> None:
    me = psutil.Process()
    span = Span([me], me)
    worked = sum(number * number for number in range(400_000))
    span.end()
    assert worked > 0
    figures = span.figures(2, others_max=2.0)
    assert figures["server_cpu_us"] == pytest.approx(span.server_seconds * 5e5)
    assert span.server_seconds > 0
    assert not figures["disturbed"]
    assert span.figures(2, others_max=-1.0)["disturbed"]


def test_an_interpreter_says_how_it_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    both = "'--enable-optimizations' '--with-lto=full'"
    assert interpreter.options_of(both) == interpreter.OPTIONS
    assert interpreter.options_of("'--enable-shared'") == ()
    assert interpreter.said_of("3.11", ("--with-lto",)) == (
        "CPython 3.11, configured with --with-lto, without --enable-optimizations"
    )
    monkeypatch.setattr(interpreter.sysconfig, "get_config_var", lambda name: "")
    monkeypatch.setattr(interpreter, "NAMES", ("python-better",))
    monkeypatch.setattr(interpreter.shutil, "which", lambda name: f"/x/{name}")
    monkeypatch.setattr(interpreter, "_asked", lambda path: ("3.13", interpreter.OPTIONS))
    said = interpreter.description()
    assert "better built: /x/python-better (CPython 3.13, configured with --enable-opt" in said
    monkeypatch.setattr(interpreter.sysconfig, "get_config_var", lambda name: both)
    assert interpreter.description().startswith(
        f"CPython {sys.version.split()[0]}, configured with"
    )
    assert "better" not in interpreter.description()


def test_rows_of_a_file_are_told_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "rows.jsonl", tmp_path / "page.md"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    page.write_text(f"{report.BEGIN}\n{report.END}\n")
    drawing = tmp_path / "drawing.svg"
    assert messages.main([f"rows={file}", f"page={page}", f"svg={drawing}", "note=busy"]) == 1, (
        "a bar is missed"
    )
    row = "| ours | single | 1,024 | 1,024 | 300 | 0 | 3413.33 |"
    assert row in capsys.readouterr().out
    assert row in page.read_text()
    assert "date: 2026-11-20." in page.read_text(), "of the measuring, not of the telling"
    assert ElementTree.parse(drawing).getroot().tag.endswith("svg")


@pytest.mark.long
def test_ours_is_measured(tmp_path: Path) -> None:
    options = messages.parsed(
        ["rounds=1", "subjects=ours", "seconds=1", "warm_up_seconds=0.2", "tries=1",
         "consume_messages=2000", "idle_seconds=0.5", f"folder={tmp_path}",
         f"file={tmp_path / 'rows'}"]
    )  # fmt: skip
    rows = messages.run(options, lambda text: None)
    assert len(rows) == len((tmp_path / "rows").read_text().splitlines())
    found = bars.cells(row for row in rows if row["kind"] != "limits")
    modes = {key.mode for key in found if key.kind == bars.SEND}
    assert modes == {"single", "batching", "tasks", "tasks-batching"}
    for key, figures in found.items():
        if key.kind in (bars.SEND, bars.CONSUME):
            assert figures["messages_per_second"] > 0, key
            assert figures["server_cpu_us"] > 0, key
    assert not any(row.get("failed") for row in rows)
    assert found[bars.Key(bars.OURS, bars.IDLE)]["resident_mb"] > 10
    assert found[bars.Key(bars.OURS, bars.START)]["seconds"] > 0
    assert report.limits_of(rows)["floor_ms"][0] > 0


@pytest.mark.long
def test_the_server_that_answers_at_once_answers_each_frame_with_its_number(tmp_path: Path) -> None:
    """Else the bar that compares with it would compare with sends that fail."""
    try:
        programs.at_once()
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    with servers.at_once(tmp_path) as running:
        host, port = running.address.split(":")

        def connected() -> bool:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
                return True
            return False

        wait_until(connected, "it listens", limit(30))
        decoder, found = FrameDecoder(), list[Frame]()
        with socket.create_connection((host, int(port)), limit(30)) as client:
            asked = [
                Frame(RequestCode.GET_ROUTEINFO_BY_TOPIC, 7, {"topic": "t"}),
                Frame(RequestCode.SEND_MESSAGE_V2, 8, {"b": "t"}, b"x" * 70_000),
                Frame(RequestCode.SEND_MESSAGE_V2, 9, {"b": "t"}, b"x", FLAG_ONEWAY),
                Frame(RequestCode.SEND_BATCH_MESSAGE, 10, {"b": '"opaque":3'}, b"x"),
            ]
            client.sendall(b"".join(map(encode_frame, asked)))
            while len(found) < 3:
                piece = client.recv(65536)
                assert piece, "the connection ended"
                found += decoder.feed(piece)
    assert [(one.opaque, one.code, one.is_response) for one in found] == [
        (7, 0, True), (8, 0, True), (10, 0, True),
    ]  # fmt: skip
    route = decode_route(found[0].body)
    assert len(route.write_queues("t")) == servers.AT_ONCE_QUEUES
    assert [one.ext["queueOffset"] for one in found[1:]] == ["0", "1"]
