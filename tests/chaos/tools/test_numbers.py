"""Numbers that make no sense are refused before anything runs: 254, one sentence, no verdict."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from chaos.live.command import chaos
from chaos.mutants.command import mutants
from chaos.sim.command import sim


@pytest.mark.parametrize(
    "words",
    [
        *(["--seed", "1", "--seconds", seconds] for seconds in ("-5", "0", "nan", "inf", "1e9")),
        *(["--seeds", "0..2", "--jobs", jobs] for jobs in ("0", "-3", "100000")),
        *(["--seeds", seeds] for seeds in ("²..5", "5..2", "0..²", "..", "-1..4")),
        ["--seed", "1", "--keep", "²"],
    ],
)
def test_of_a_simulation(words: list[str]) -> None:
    done = CliRunner().invoke(sim, words)
    assert done.exit_code == 254
    assert "Error: " in done.output


@pytest.mark.parametrize(
    "words",
    [
        ["mutants", "--jobs", "0"],
        ["shrunk", "--failures", "0"],
        ["run", "--seconds", "nan"],
        ["shrink", "--seed", "1", "--seconds", "-20"],
    ],
)
def test_of_other_commands(words: list[str]) -> None:
    done = CliRunner().invoke(chaos, words)
    assert done.exit_code == 254
    assert "Error: " in done.output


def test_of_the_short_form() -> None:
    assert CliRunner().invoke(mutants, ["--jobs", "0"]).exit_code == 254
