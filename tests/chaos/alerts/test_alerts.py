"""Each alert rule has a fault that fires it, and a real Prometheus says that it does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from chaos.alerts.command import calm_text, line, table
from chaos.alerts.prometheus import VARIABLE, NoPrometheus, program, shortened
from chaos.alerts.run import Calm, Row, why_not
from chaos.alerts.scenes import BY_NAME, SCENES
from chaos.live.command import chaos
from chaos.tools.exit_codes import USAGE
from cluster.settings.conf_alerts import RULES, alerts_yml
from tests.interop.harness import toolchains
from tests.waiting import limit

ROOT = Path(__file__).parents[3]
DLEDGER = Path(sys.executable).parent / "dledger"
NAMES = {rule.name for rule in RULES}
TABLES = "tables"
"""Half a million messages: not for a test."""


@pytest.fixture(scope="module")
def prometheus() -> str:
    try:
        return toolchains.prometheus()
    except toolchains.Missing as missing:
        pytest.skip(f"not here: {missing}" if toolchains.may_install() else str(missing))


def alerts(prometheus: str, out: Path, *arguments: str, seconds_max: float) -> tuple[int, Any]:
    """Exit code and rows of the command."""
    done = subprocess.run(
        [str(DLEDGER), "chaos", "alerts", *arguments, "--out", str(out), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=limit(seconds_max),
        cwd=ROOT,
        env=os.environ | {VARIABLE: prometheus, "COLUMNS": "200"},
    )
    assert done.stdout, done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout)


def judged(code: int, rows: list[dict[str, Any]], scenes: list[str]) -> None:
    wanted = [(name, rule) for name in scenes for rule in BY_NAME[name].fires]
    assert [(row["scene"], row["rule"]) for row in rows] == wanted
    skipped = {row["scene"] for row in rows if row["skipped"]}
    assert skipped == {name for name in scenes if why_not(BY_NAME[name])}
    for row in rows:
        if not row["skipped"]:
            assert row["after"] is not None, row
            assert row["unexpected"] == [], row
            assert row["cleared"] is not None or row["rule"] in BY_NAME[row["scene"]].stays, row
    assert code == 0, rows


@pytest.mark.timeout(600)
def test_alerts_fire_on_their_faults_and_clear(prometheus: str, tmp_path: Path) -> None:
    """Other tests beside it may cost a leader, which is an alert of its own."""
    scenes = ["clock", "mistake"]
    options = ["--faster", "30", "--at-once", "2", "--scenes", ",".join(scenes)]
    _, rows = alerts(prometheus, tmp_path / "out", *options, seconds_max=120)
    moved = [rule for row in rows for rule in row["unexpected"]]
    assert set(moved) <= {"DledgerLeaderMoves"}, rows
    judged(0, [{**row, "unexpected": []} for row in rows], scenes)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_none_fires_in_a_calm_span(prometheus: str, tmp_path: Path) -> None:
    options = ["--calm", "20", "--rate", "50", "--faster", "5"]
    code, found = alerts(prometheus, tmp_path / "out", *options, seconds_max=100)
    assert found["fired"] == []
    assert found["sent"] > 100
    assert found["read"] >= found["sent"]
    assert code == 0, found


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_scene_but_the_full_tables(prometheus: str, tmp_path: Path) -> None:
    scenes = [scene.name for scene in SCENES if scene.name != TABLES]
    options = ["--faster", "30", "--at-once", "2", "--scenes", ",".join(scenes)]
    code, rows = alerts(prometheus, tmp_path / "out", *options, seconds_max=1800)
    judged(code, rows, scenes)


def test_every_rule_has_a_scene_and_every_name_is_a_rule() -> None:
    assert {rule for scene in SCENES for rule in scene.fires} == NAMES
    for scene in SCENES:
        assert {*scene.fires, *scene.beside, *scene.stays} <= NAMES
        assert not set(scene.fires) & set(scene.beside)
        assert scene.stays.keys() <= set(scene.fires)


def test_shortened_rules_keep_their_limits() -> None:
    whole = alerts_yml()
    short = shortened(whole, 30)
    assert "for: 10s" in short
    assert "[10s]" in short
    assert not re.search(r"\bfor: \d+m|\[\d+m\]", short)
    again = re.sub(r"for: \d+s", "for: X", short)
    assert re.sub(r"\[\d+s\]", "[X]", again) == re.sub(
        r"\[\d+m\]", "[X]", re.sub(r"for: \d+m", "for: X", whole)
    )


def test_what_did_not_fire_or_should_not_have_is_not_good() -> None:
    fired = Row("clock", "a clock", "DledgerClockOff", 5, 301.0, 4.0)
    assert fired.good
    assert line(fired).split() == [
        "clock",
        "DledgerClockOff",
        "after",
        "301",
        "s",
        "gone",
        "4",
        "s",
        "on",
    ]
    silent = Row("clock", "a clock", "DledgerClockOff", 5)
    assert not silent.good
    assert "DID NOT FIRE" in line(silent)
    other = Row("clock", "a clock", "DledgerClockOff", 5, 1.0, 1.0, unexpected=["DledgerNodeDown"])
    assert not other.good
    assert "UNEXPECTED DledgerNodeDown" in line(other)
    assert "**DledgerNodeDown**" in table([other])
    assert Row("clock", "", "DledgerClockOff", skipped=True, why="needs root").good
    assert Calm(60, sent=5, read=5).good
    assert not Calm(60, sent=5, read=5, fired=["DledgerNodeDown"]).good
    assert not Calm(60, sent=5, read=4).good, "a message is missing"
    assert "fired nothing" in calm_text(Calm(60, sent=5, read=5))


def test_wrong_uses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = CliRunner().invoke(chaos, ["alerts", "--scenes", "nonsense"])
    assert done.exit_code == USAGE
    assert "there is no scene 'nonsense'; there are certificate-1-day, " in done.output
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoPrometheus, match="install it"):
        program()
    done = CliRunner().invoke(chaos, ["alerts", "--scenes", "clock"])
    assert done.exit_code == USAGE
