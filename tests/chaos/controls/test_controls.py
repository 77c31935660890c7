"""Negative controls turn red; what stays green fails the command."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.controls import command
from chaos.controls.command import CONTROLS
from chaos.controls.control import Control, Shown
from chaos.controls.majority_rot import REFUSED, RIGHT, SILENT, _shown
from chaos.controls.unsynced_node import make_switchable
from chaos.history import Kind, Operation, Outcome
from chaos.sim.disk import SimDisk
from chaos.sim.names import Inode
from chaos.sim.world import run_seed


def _made(name: str, *, red: bool = True, why_not: str = "") -> Control:
    async def run(root: Path, seed: int) -> Shown:
        return Shown(red, f"seed {seed} in {root.name}")

    return Control(name, "a control of the test", "lost-write", lambda: why_not, run)


def _command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *chosen: Control
) -> tuple[int, list[dict[str, str]]]:
    monkeypatch.setattr(command, "CONTROLS", chosen)
    arguments = ["--seed", "7", "--out", str(tmp_path / "out"), "-o", "json"]
    result = CliRunner().invoke(command.controls, arguments)
    return result.exit_code, json.loads(result.output)["controls"]


def test_all_red_is_good(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, rows = _command(monkeypatch, tmp_path, _made("a"), _made("b", why_not="needs root"))
    assert code == 0
    assert [row["state"] for row in rows] == ["red", "skipped"]
    assert rows[1]["seen"] == "needs root"


def test_one_that_stays_green_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, rows = _command(monkeypatch, tmp_path, _made("a"), _made("b", red=False))
    assert code == 1
    assert [row["state"] for row in rows] == ["red", "GREEN"]


def test_nothing_that_can_be_run_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, _ = _command(monkeypatch, tmp_path, _made("a", why_not="needs root"))
    assert code == 2


def test_an_unknown_name_is_told(tmp_path: Path) -> None:
    result = CliRunner().invoke(command.controls, ["--only", "fsync-on"])
    assert result.exit_code == 2
    assert "there is no control fsync-on" in result.output


def test_the_three_of_the_list_are_there_and_one_about_bytes() -> None:
    names = [control.name for control in CONTROLS]
    assert names == ["fsync-off", "fsync-lies", "majority-rot", "changed-byte"]


@pytest.mark.parametrize(
    ("answers", "unreadable", "red"),
    [
        ({"n0": REFUSED, "n1": REFUSED, "n2": RIGHT}, ["n0", "n1"], True),
        ({"n0": REFUSED, "n1": REFUSED, "n2": REFUSED}, ["n0", "n1"], True),
        ({"n0": REFUSED, "n1": SILENT, "n2": RIGHT}, ["n0", "n1"], False),
        ({"n0": REFUSED, "n1": RIGHT, "n2": RIGHT}, ["n0", "n1"], False),
        ({"n0": REFUSED, "n1": REFUSED, "n2": SILENT}, ["n0", "n1"], False),
        ({"n0": REFUSED, "n1": REFUSED, "n2": RIGHT}, ["n0"], False),
    ],
)
def test_refusing_is_right_and_silence_is_not(
    answers: dict[str, str], unreadable: list[str], red: bool
) -> None:
    op = Operation("p0", Kind.APPEND, "p0-1", 0, 1, Outcome.OK, 4)
    told = {node: (word, "") for node, word in answers.items()}
    assert _shown(op, ["n0", "n1"], told, unreadable).red is red


def test_the_switch_turns_syncs_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    switch = tmp_path / "off"
    make_switchable(switch)
    os.fsync(3)
    switch.touch()
    os.fsync(4)
    os.fdatasync(5)
    switch.unlink()
    os.fdatasync(6)
    assert synced == [3, 6]


def test_the_simulator_finds_syncs_that_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same control without root: a disk that never syncs file content."""

    def lies(self: SimDisk, inode: Inode, name: str) -> None:
        self.operations += 1

    monkeypatch.setattr(SimDisk, "sync_inode", lies)
    assert run_seed(1, 3, 10.0).violation == "term-not-durable"


@pytest.mark.long
@pytest.mark.timeout(200)
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_a_control_turns_red_on_real_processes(control: Control, tmp_path: Path) -> None:
    if reason := control.why_not():
        pytest.skip(f"not here: {reason}")
    shown = asyncio.run(control.run(tmp_path, 7))
    assert shown.red, shown.seen
