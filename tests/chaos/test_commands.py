"""`dledger chaos` imports a command when it is called, and shows the help that it has then."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from chaos.live.command import COMMANDS, chaos
from tests.waiting import limit

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"aiohttp", "asyncio", "numpy", "psutil", "rich"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_of_the_list_has_its_name_and_help(name: str) -> None:
    module, _, attribute = COMMANDS[name].target.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.get_short_help_str(200) == COMMANDS[name].help


def test_wrong_usage_of_an_imported_command_is_no_verdict() -> None:
    assert CliRunner().invoke(chaos, ["run", "--nodes", "none"]).exit_code == 254
    assert CliRunner().invoke(chaos, ["nothing"]).exit_code == 254


@pytest.mark.parametrize(
    ("words", "absent"),
    [(["--help"], HEAVY), (["run", "--help"], {"aiohttp", "prometheus_client"})],
)
def test_help_loads_nothing_that_it_does_not_need(words: list[str], absent: set[str]) -> None:
    code = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"
        f"sys.argv = ['dledger', 'chaos', *{words!r}]\n"
        "from cluster.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=limit(60)
    )
    assert done.returncode == 0, done.stderr
    assert not absent & set(json.loads(done.stderr.splitlines()[-1]))
