"""`folder=` of a bench that is not there: a sentence, before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cluster.commands.bench import BENCHES, bench, parse
from cluster.commands.errors import NOT_THERE, USAGE, CommandError
from cluster.commands.registry import BENCHES_GROUP
from tests.peers import embed, failover, messages

OF_CHAOS = "join", "recovery", "soak", "topics"


def test_a_folder_that_is_there_is_taken_as_it_is_named(tmp_path: Path) -> None:
    odd = tmp_path / "1,2"
    odd.mkdir()
    assert parse((f"folder={odd}", "windows=1,2")) == {"folder": str(odd), "windows": (1, 2)}
    assert parse(("folder=",)) == {"folder": ""}


@pytest.mark.parametrize("name", [*BENCHES, *OF_CHAOS])
def test_benches_of_ours(name: str, tmp_path: Path) -> None:
    for folder in tmp_path / "missing", Path(__file__):
        found = CliRunner().invoke(bench, [name, f"folder={folder}"])
        assert (found.exit_code, found.exception.__class__) == (NOT_THERE, SystemExit)
        assert f"{folder} is no folder to work in; make it, or name another" in found.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("main", "words"), [(embed.main, ["embed"]), (failover.main, []), (messages.main, [])]
)
def test_benches_beside_peers(
    main: Callable[[Sequence[str]], int],
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*words, f"folder={tmp_path / 'missing'}"]) == NOT_THERE
    assert f"{tmp_path / 'missing'} is no folder to work in" in capsys.readouterr().out
    assert main([*words, "speed=1"]) == USAGE
    assert "no option speed" in capsys.readouterr().out


def test_benches_of_the_pipeline(tmp_path: Path) -> None:
    from pipeline.bench.options import folder_option

    @click.command()
    @folder_option
    def command(folder: str) -> None:
        click.echo(folder)

    found = CliRunner().invoke(command, ["--folder", str(tmp_path / "missing")])
    assert isinstance(found.exception, CommandError | SystemExit)
    assert found.exit_code == NOT_THERE
    assert CliRunner().invoke(command, ["--folder", str(tmp_path)]).stdout.strip() == str(tmp_path)


def test_all_benches_are_looked_at() -> None:
    assert {one.name for one in entry_points(group=BENCHES_GROUP)} >= {"chaos", "pipeline"}
