"""`-o` on every command, and the object by which a program learns what was done."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from cluster.commands.local import _print_log, fitted_members
from cluster.local import one_address, plan
from tests.cluster.commands.test_against_nodes import run as run_in_thread
from tests.cluster.commands.test_against_nodes import three_nodes
from tests.cluster.commands.test_cli import EVERY_COMMAND
from tests.command_line import run
from tests.waiting import eventually

#: Why a command has no `-o`.
WITHOUT = {
    "dledger completion": "prints a script for a shell",
    "dledger inspect": "its options are its own, commitlog has them",
    "dledger nameserver": "serves until it is ended; its log is what it prints",
    "dledger node run": "serves until it is ended; --log says how it logs",
    "dledger node join": "serves until it is ended; --log says how it logs",
    "dledger node replace": "serves until it is ended; --log says how it logs",
    "dledger chaos report": "writes a page and prints its path",
    "dledger chaos serve": "serves pages until it is ended",
    "dledger mutants-drawn": "its --file has a JSON object for each row",
    "dledger bench spark-all": "starts the other benches, which have it",
}
#: Commands that go on printing: a JSON value never ends there, so they have lines alone.
STREAMS = {"dledger produce", "dledger consume", "dledger topic tail", "dledger cluster watch"}
#: One report each, of many parts: text, or one JSON object on one line.
REPORTS = ("dledger bench ", "dledger chaos ", "dledger pipeline ")
REPORT_NAMES = {"dledger demo", "dledger mutants", "dledger sim"}


def formats(command: click.Command) -> set[str]:
    return {
        choice
        for option in command.params
        if "-o" in option.opts and isinstance(option.type, click.Choice)
        for choice in option.type.choices
    }


def is_wrong(name: str, found: set[str]) -> bool:
    if name in WITHOUT:
        return bool(found)  # it has the option by now: its row is out of date
    if name in STREAMS:
        return "jsonl" not in found
    if name.startswith(REPORTS) or name in REPORT_NAMES:
        return not found >= {"text", "json"}
    return not (found >= {"json", "jsonl"} and found & {"table", "text"})


def test_every_command_prints_for_programs_too() -> None:
    leaves = {
        name: formats(found)
        for name, found in EVERY_COMMAND.items()
        if not isinstance(found, click.Group)
    }
    assert {*WITHOUT, *STREAMS, *REPORT_NAMES} <= leaves.keys(), "rows of commands that are gone"
    assert [name for name, found in leaves.items() if is_wrong(name, found)] == []


def test_a_command_without_the_option_is_found() -> None:
    assert is_wrong("dledger new", set())
    assert is_wrong("dledger new", {"text", "json"})
    assert is_wrong("dledger produce", {"table"})


def done(home: Path, words: str) -> Any:
    env = {**os.environ, "DLEDGER_HOME": str(home), "NAMESRV_ADDR": ""}
    found = run(*words.split(), "-o", "json", env=env, cwd=home)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_profiles_and_certificates_tell_what_was_done(tmp_path: Path) -> None:
    (made,) = done(tmp_path, "profile create prod -a 10.0.0.1:9876 --use")
    assert (made["profile"], made["address"], made["in_use"]) == ("prod", "10.0.0.1:9876", "*")
    assert done(tmp_path, "profile alter prod -a 10.0.0.2:9876")[0]["address"] == "10.0.0.2:9876"
    assert done(tmp_path, "profile use --none") == []
    assert done(tmp_path, "profile use prod")[0]["in_use"] == "*"
    assert done(tmp_path, "profile delete prod --yes") == [{"profile": "prod", "deleted": True}]
    written = {row["written"] for row in done(tmp_path, "tls init tls --node n0=127.0.0.1")}
    assert {"tls/authority.pem", "tls/n0.pem"} <= written
    assert done(tmp_path, "tls renew tls") == []
    assert {"written": "tls/n0.pem"} in done(tmp_path, "tls renew tls --all")


def test_nodes_tell_what_was_made(tmp_path: Path) -> None:
    (made,) = done(tmp_path, "node init n0.toml --no-format")
    assert (made["node"], made["file"], made["formatted"]) == ("n0", "n0.toml", False)
    assert done(tmp_path, "node format n0.toml")[0]["formatted"] is True
    assert done(tmp_path, "node format n0.toml")[0]["formatted"] is False
    assert done(tmp_path, "config check n0.toml") == [
        {"file": "n0.toml", "good": True, "notes": []}
    ]


def test_a_local_cluster_tells_what_was_started_and_stopped(tmp_path: Path) -> None:
    (none,) = done(tmp_path, "down")
    assert (none["stopped"], none["deleted"]) == ([], False)
    (up,) = done(tmp_path, "up -n 1 --any-port")
    try:
        assert up["started"] == ["ns", "n0"]
        assert {row["node"] for row in up["nodes"]} == {"ns", "n0"}
        lines = done(tmp_path, "logs n0 -n 3")
        assert [row["node"] for row in lines] == ["n0"] * len(lines)
        assert 1 <= len(lines) <= 3
        (archive,) = done(tmp_path, "bundle out.tar.gz")
        assert archive["bytes"] == (tmp_path / "out.tar.gz").stat().st_size
    finally:
        (down,) = done(tmp_path, "down --purge")
    assert (sorted(down["stopped"]), down["deleted"]) == (["n0", "ns"], True)


async def test_topics_and_groups_tell_what_was_changed(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    async with three_nodes(tmp_path, new_address) as address:

        async def changed(words: str) -> list[dict[str, Any]]:
            found = await run_in_thread(*words.split(), "-a", address, "-o", "json")
            return json.loads(found.stdout) if found.exit_code == 0 else []

        (row,) = await eventually(lambda: changed("topic create t -q 2"), "the topic")
        assert (row["topic"], row["write_queues"], row["perm"]) == ("t", 2, "read-write")
        assert (await changed("topic alter t -q 3"))[0]["write_queues"] == 3
        assert await changed("topic delete t --yes") == [{"topic": "t", "deleted": True}]
        (row,) = await changed("group create g --retries 4")
        assert (row["group"], row["retries"]) == ("g", 4)
        assert (await changed("group alter g --no-consume"))[0]["consume"] is False
        file = tmp_path / "dead.jsonl"
        assert await changed(f"dlq export g {file}") == [
            {"group": "g", "file": str(file), "written": 0}
        ]
        (row,) = await changed("group delete g --yes")
        assert (row["group"], row["deleted"]) == ("g", True)


def test_a_line_that_is_not_whole_yet_waits(capsys: pytest.CaptureFixture[str]) -> None:
    rest = _print_log("n0", "one\ntw", "jsonl", grows=True)
    assert rest == "tw"
    assert _print_log("n0", rest + "o\n", "jsonl", grows=True) == ""
    assert [json.loads(line)["line"] for line in capsys.readouterr().out.splitlines()] == [
        "one",
        "two",
    ]


def test_a_sentence_about_addresses_is_not_in_front_of_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(one_address, "has_host", lambda host: host == "127.0.0.1")
    fitted_members(plan.plan(3), any_port=False)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err
