"""`scripts/demo --input FILE`: lines are what stands between line ends, in any encoding."""

from __future__ import annotations

import io
from pathlib import Path

import click
import pytest

from chaos.checkers.verdict import judge
from chaos.demo.command import _gaps, _lines
from chaos.demo.course import LOAD_SECONDS, WORKERS, Gap, Options, Result, _pause

from .node_process import dledger


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one", [b"one"]),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"\n", [b""]),
        (b"\n\nend", [b"", b"", b"end"]),
        (b"form\x0cfeed\x1e\x85\n", [b"form\x0cfeed\x1e\x85"]),
        ("Zeile\u2028\n".encode(), ["Zeile\u2028".encode()]),
        ("größer\n".encode("latin-1"), ["größer".encode("latin-1")]),
        (b"z" * (4 << 20) + b"\n", [b"z" * (4 << 20)]),
    ],
)
def test_lines(data: bytes, lines: list[bytes]) -> None:
    assert _lines(io.BytesIO(data)) == lines


def test_a_line_over_the_limit_is_named() -> None:
    with pytest.raises(click.BadParameter, match=r"line 2 has 4194305 bytes.* at most 4194304"):
        _lines(io.BytesIO(b"one\n" + b"z" * ((4 << 20) + 1)))


@pytest.mark.parametrize("what", ["a folder", "nothing", "a line too long"])
def test_what_cannot_be_sent_is_refused_before_anything_starts(what: str, tmp_path: Path) -> None:
    source = tmp_path / "lines"
    if what == "a folder":
        source.mkdir()
    elif what == "a line too long":
        source.write_bytes(b"z" * ((4 << 20) + 1))
    runs = tmp_path / "runs"
    ended = dledger("demo", "--runs", str(runs), "--input", str(source), home=tmp_path)
    assert ended.code == 2, ended.text
    assert "Traceback" not in ended.text
    assert not runs.exists()


@pytest.mark.parametrize("count", [1, 5, 40, 1000])
def test_few_lines_are_spread_over_both_faults(count: int) -> None:
    pause = _pause(Options(Path(), seed=1, lines=[b"x"] * count))
    times = [pause * (n % WORKERS) / WORKERS + pause * (n // WORKERS) for n in range(count)]
    step = LOAD_SECONDS / count
    assert times == pytest.approx([n * step for n in range(count)])


def test_gaps_are_told_only_where_something_waited() -> None:
    def told(*seconds: float | None) -> str:
        gaps = [
            Gap(fault, s, "n1") for fault, s in zip(("kill", "partition"), seconds, strict=True)
        ]
        verdict = judge([], {})
        return _gaps(Result(0, verdict, [], 0, gaps, {}))

    assert (
        told(0.1, 0.5) == "no acknowledgement for 0.10 s after the kill, 0.50 s after the partition"
    )
    assert told(None, 0.5) == "no acknowledgement for 0.50 s after the partition"
    assert told(None, None) == "no message was waiting at either fault"
    assert str(Gap("kill", None, "n1")) == "no message was waiting for an acknowledgement"
