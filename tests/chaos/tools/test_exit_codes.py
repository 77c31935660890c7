"""What ends a judging command without a verdict never looks like one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import limit

DLEDGER = str(Path(sys.executable).with_name("dledger"))


@pytest.mark.parametrize(
    "words", [("chaos", "faults"), ("sim", "--seeds", "0..1", "--seconds", "1")]
)
def test_a_reader_that_has_gone_is_no_verdict(words: tuple[str, ...]) -> None:
    command = subprocess.Popen([DLEDGER, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout is not None
    command.stdout.close()
    _, said = command.communicate(timeout=limit(60))
    assert command.returncode == 255
    assert b"Traceback" not in said


def test_an_unknown_mutant_is_wrong_usage() -> None:
    words = [sys.executable, "-m", "chaos.mutants.within", "nothing", "sim", "--seed", "1"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 254
    assert "there is no mutant nothing" in done.stderr
