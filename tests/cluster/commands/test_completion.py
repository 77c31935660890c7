"""`dledger completion`: the scripts name our program, and the program answers them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.commands.completion import SHELLS, VARIABLE
from tests.waiting import limit


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(shell: str) -> None:
    found = CliRunner().invoke(dledger, ["completion", shell])
    assert found.exit_code == 0
    assert f"{VARIABLE}={shell}_complete" in found.output
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=found.output, text=True, check=True, timeout=limit(30))


def test_another_shell_is_refused() -> None:
    assert CliRunner().invoke(dledger, ["completion", "tcsh"]).exit_code == 2


def test_the_program_completes_commands_and_verbs() -> None:
    program = Path(sys.executable).with_name("dledger")
    asked = {VARIABLE: "bash_complete", "COMP_WORDS": "dledger topic cr", "COMP_CWORD": "2"}
    found = subprocess.run(
        [program], env={**os.environ, **asked}, capture_output=True, text=True, timeout=limit(60)
    )
    assert found.stdout.split() == ["plain,create"]
