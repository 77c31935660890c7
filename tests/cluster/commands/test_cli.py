"""The command line as a user meets it: helps, errors, exit codes. No cluster is started here."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest

from chaos.cli import SUMMARIES
from cluster.cli import dledger as root_command
from cluster.client import ReceivedMessage
from cluster.commands.bench import BENCHES
from cluster.commands.errors import CommandError
from cluster.commands.messages import render
from cluster.commands.registry import BENCHES_GROUP, COMMANDS, COMMANDS_GROUP
from cluster.commands.topics import is_internal
from cluster.protocol.json_body import MessageQueue
from cluster.protocol.route import BrokerData
from cluster.settings.node import SECTIONS
from tests.command_line import run
from tests.waiting import limit


def dledger(*arguments: str, home: Path, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    return run(*arguments, env=environment(home), fresh=fresh)


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "DLEDGER_HOME": str(home), "NAMESRV_ADDR": ""}


def plugged_in() -> list[str]:
    commands = [name for found in entry_points(group=COMMANDS_GROUP) for name in found.load()]
    benches = [name for found in entry_points(group=BENCHES_GROUP) for name in found.load()]
    assert commands, "chaos brings some"
    return [*commands, *(f"bench {name}" for name in benches)]


def test_a_process_that_is_started_says_the_same_as_one_that_is_forked(tmp_path: Path) -> None:
    """`run` saves the start of Python and of imports; all else is as when a user types it."""
    for arguments in (["--version"], ["ps"], ["up", "--set", "nonsense"], ["bench", "--help"]):
        started = subprocess.run(
            [sys.executable, "-m", "cluster.cli", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit(60),
            env=environment(tmp_path),
        )
        expected = (started.returncode, started.stdout, started.stderr)
        for fresh in (False, True):
            forked = dledger(*arguments, home=tmp_path, fresh=fresh)
            assert (forked.returncode, forked.stdout, forked.stderr) == expected


@pytest.mark.parametrize("name", [*COMMANDS, *plugged_in()])
def test_every_command_explains_itself(name: str, tmp_path: Path) -> None:
    """And imports what it needs: nothing else has been imported before."""
    found = dledger(*name.split(), "--help", home=tmp_path, fresh=True)
    assert found.returncode == 0, found.stderr
    assert "usage" in found.stdout.lower()


def commands(command: click.Command, *names: str) -> Iterator[tuple[str, click.Command]]:
    """`command` and all below it, by what one types."""
    yield " ".join(names), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, *names, name)


EVERY_COMMAND = dict(commands(root_command, "dledger"))


@pytest.mark.parametrize("name", EVERY_COMMAND)
def test_every_option_says_what_it_does(name: str) -> None:
    options = [p for p in EVERY_COMMAND[name].params if isinstance(p, click.Option)]
    assert not [option.opts for option in options if not option.help]


@pytest.mark.parametrize(
    "name", [name for name, found in EVERY_COMMAND.items() if isinstance(found, click.Group)]
)
def test_the_list_of_a_group_is_not_cut_off(name: str) -> None:
    command = EVERY_COMMAND[name]
    text = command.get_help(click.Context(command, terminal_width=80))
    assert "..." not in text.partition("Commands:")[2]


@pytest.mark.parametrize(
    "name",
    [
        *(f"cluster.bench.{name}" for name in BENCHES),
        *(f"chaos.bench.{name}" for name in SUMMARIES),
    ],
)
def test_every_option_of_a_bench_is_described(name: str) -> None:
    module = importlib.import_module(name)
    (options,) = (kind for kind in vars(module).values() if _is_options_of(kind, module.__name__))
    described = set(re.findall(r"\w+", module.__doc__ or ""))
    assert {field.name for field in fields(options)} <= described


def _is_options_of(kind: object, module: str) -> bool:
    return (
        isinstance(kind, type) and kind.__module__ == module and kind.__name__.endswith("Options")
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["ps"], 3, "no local cluster is known in .*; start one with dledger up"),
        (["status"], 3, "start one with dledger up"),
        (["logs", "n0"], 3, "start one with dledger up"),
        (["produce", "t"], 2, "start a cluster here with `dledger up`"),
        (["consume", "t", "-a", "nonsense"], 2, "write host:port"),
        (["topic", "list", "-a", "127.0.0.250:1"], 4, "check the address, and that a node"),
        (["consume", "t", "-f", "%x"], 2, "%x in the format means nothing"),
        (["up", "--set", "raft.heartbeat=1"], 2, "did you mean raft.heartbeat_ms"),
        (["up", "--set", "nonsense"], 2, "not of the form section.key=value"),
        (["up", "--set", "raft.heartbeat_ms=400"], 2, "heartbeat_interval 0.4 .* 0.3"),
        (["config", "show", "--set", "broker.lisen_port=1"], 2, "did you mean broker.listen_port"),
        (["no-such-command"], 2, "No such command"),
        (["bench", "disk", "colour=red"], 2, "bench disk --help lists the options"),
    ],
)
def test_wrong_things_are_said_in_one_sentence(
    arguments: list[str], code: int, said: str, tmp_path: Path
) -> None:
    found = dledger(*arguments, home=tmp_path)
    assert found.returncode == code, found.stderr
    assert re.search(said, found.stderr), found.stderr
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "local" / "profile.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        "up --root /dev/null/x",
        "up --set raft.peers=x",
        "up --set raft.data_file_size=x",
        "up --set raft.secret=x",
        "up -n 99",
        "ps --root /nonexistent",
        "inspect /nonexistent",
        "export . out",
        "import .",
        "config check .",
        "config check /nonexistent",
        "config show /etc/passwd",
        "consume t --tls-any-host -a 127.0.0.250:1",
        "consume t --tls /nonexistent -a 127.0.0.250:1",
        "produce t --account /nonexistent -a 127.0.0.250:1",
        "topic create t -a 127.0.0.250:1",
        "topic alter t -a 127.0.0.250:1",
        "topic delete t -a 127.0.0.250:1",
        "group reset g --topic t --to yesterday -a 127.0.0.250:1",
        "group describe g -a 127.0.0.250:1",
        "message find t -k k -a 127.0.0.250:1",
        "message dead g -a 127.0.0.250:1",
        "leader move broker-a n1 -a 127.0.0.250:1",
        "member recover .",
        "member recover . --unsafe",
        "member add n3 --start --yes",
        "verify -a 127.0.0.250:1",
        "scrub -a 127.0.0.250:1",
        "bench send x",
        "sim --seeds x",
        "sim",
        "chaos check /nonexistent",
        "chaos run --faults nonsense",
        "chaos replay --seed 7 /nonexistent",
        "pipeline verify .",
        "mutants --only nonsense",
    ],
)
def test_whatever_is_wrong_there_is_one_thing_to_try(arguments: str, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    found = dledger(*[str(empty) if a == "." else a for a in arguments.split()], home=tmp_path)
    said = found.stderr
    assert found.returncode not in (0, 70), said
    assert "Traceback" not in said
    # Wrong usage is told by click, which names the command that explains it.
    assert "; " in said.splitlines()[-1] or "--help' for help" in said, said
    assert said.count("; try") + said.count("; dledger status") <= 1, "one thing, not two"


def test_topics_of_the_system_are_internal() -> None:
    brokers = {"broker-a": BrokerData("broker-a", "prod", {0: "127.0.0.1:1"})}
    internal = ["TBW102", "rmq_sys_x", "%RETRY%g", "%DLQ%g", "prod", "broker-a", "prod_REPLY_TOPIC"]
    assert all(is_internal(name, brokers) for name in internal)
    assert not is_internal("orders", brokers)


def test_down_without_a_cluster_is_fine(tmp_path: Path) -> None:
    found = dledger("down", home=tmp_path)
    assert found.returncode == 0
    assert "nothing to stop" in found.stdout


def test_a_stale_profile_can_be_forgotten(tmp_path: Path) -> None:
    root = tmp_path / "local"
    root.mkdir()
    (root / "profile.json").write_text("{ not json")
    found = dledger("ps", home=tmp_path)
    assert found.returncode == 1
    assert "dledger down --purge" in found.stderr
    assert dledger("down", "--purge", home=tmp_path).returncode == 0
    assert not root.exists()


def test_config_show_masks_every_secret(tmp_path: Path) -> None:
    """Whichever setting has a repr that is left out is one."""
    given = "only-its-owner-knows"
    secrets = [
        f"{section}.{field.name}"
        for section, kind in SECTIONS.items()
        for field in fields(kind)
        if not field.repr
    ]
    assert set(secrets) >= {"raft.secret", "broker.cluster_secret", "admin.token"}
    flags = [part for name in secrets for part in ("--set", f"{name}={given}")]
    shown = dledger("config", "show", *flags, home=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert given not in shown.stdout + shown.stderr
    assert shown.stdout.count("***") == len(secrets)


def test_config_check(tmp_path: Path) -> None:
    good = tmp_path / "good.toml"
    good.write_text('[raft]\nnode_id="n0"\npeers={n0="127.0.0.1:1"}\n[broker]\nroot="x"\n')
    assert dledger("config", "check", str(good), home=tmp_path).returncode == 0
    bad = tmp_path / "bad.toml"
    bad.write_text(good.read_text() + "listen_prt = 5\n")
    found = dledger("config", "check", str(bad), home=tmp_path)
    assert found.returncode == 2
    assert "did you mean broker.listen_port?" in found.stderr


def test_secrets_that_others_may_read_are_told(tmp_path: Path) -> None:
    text = '[raft]\nnode_id="n0"\npeers={n0="127.0.0.1:1"}\n{secret}[broker]\nroot="x"\n'
    file = tmp_path / "node.toml"
    for mode, secret, told in (
        (0o644, 'secret="long-enough"\n', True),
        (0o600, 'secret="long-enough"\n', False),
        (0o644, "", False),
    ):
        file.write_text(text.replace("{secret}", secret))
        file.chmod(mode)
        found = dledger("config", "check", str(file), home=tmp_path)
        assert (found.returncode, "chmod 600" in found.stderr) == (0, told)
        assert "long-enough" not in found.stdout + found.stderr


MESSAGE = ReceivedMessage(
    MessageQueue("orders", "broker-a", 3), 7, b"body", b"KEYS\x01k1 k2\x02", 4711, 0, 0, 0, 0
)


def test_formats() -> None:
    assert render("%t %q %o %p %k %v %%\\t\\n")(MESSAGE) == b"orders 3 7 4711 k1 k2 body %\t\n"
    with pytest.raises(CommandError, match="means nothing"):
        render("100%")
