"""`--help` of the scripts says what they take; it runs no test and holds no checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.layers import machine
from scripts.layers.__main__ import main
from scripts.layers.usage import HELP


@pytest.mark.parametrize("asked", ["--help", "-h"])
@pytest.mark.parametrize("name", sorted(HELP))
def test_help_of_a_script_is_printed_while_another_run_holds_the_checkout(
    name: str,
    asked: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    with machine.only_run_here():
        assert main([name, *(["-n0"] if asked == "-h" else []), asked]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"scripts/{name}: ")
    assert "Exit code:" in printed
    assert "Environment:" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_help_of_test_names_what_it_takes() -> None:
    for word in ("scripts/test PATH...", "--long", "CI=true", "TMPDIR", "DLEDGER_EVIDENCE"):
        assert word in HELP["test"]


def test_every_script_that_runs_layers_has_a_help() -> None:
    scripts = machine.ROOT / "scripts"
    texts = {
        path.name: path.read_text()
        for path in scripts.iterdir()
        if path.is_file() and not path.suffix
    }
    assert {name for name, text in texts.items() if "scripts.layers" in text} == set(HELP)
