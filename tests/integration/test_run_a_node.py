"""The page "Run a node" of cluster/README.md and the unit of deploy/, as they stand."""

from __future__ import annotations

import configparser
import re
import shlex
import socket
from pathlib import Path

import click
import pytest

from cluster.cli import dledger as root_command
from cluster.local.nameserver_main import arguments_of
from cluster.settings.node import build_node, read_node
from tests.integration.nodes_by_hand import ROOT, SMALL_FLAGS, by_hand, done

PAGE = (ROOT / "cluster/README.md").read_text("utf-8")
UNIT = ROOT / "deploy/systemd/dledger.service"
SECTION = PAGE.partition("## Run a node\n")[2].partition("\n## ")[0]


def block(kind: str) -> str:
    (found,) = re.findall(rf"```{kind}\n(.*?)```", SECTION, re.S)
    return str(found)


def lines(*begin: str) -> list[list[str]]:
    """Commands of the page that begin so, without `dledger`."""
    found = [shlex.split(line) for line in block("sh").splitlines() if line.startswith("dledger ")]
    return [words[1:] for words in found if words[1 : 1 + len(begin)] == list(begin)]


def check_options(words: list[str]) -> None:
    """Click reads them all, down to the last command; nothing is run."""
    command: click.Command = root_command
    context = click.Context(command)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
    command.make_context("dledger", list(words))


def test_the_commands_do_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.secret").write_text("51de" * 16)
    (first, later) = lines("tls", "init")
    done(*first)
    for words in lines("node", "init"):
        done(*words)
    made = {name: build_node(read_node(Path(name, "node.toml"), {})) for name in ("n0", "n1", "n2")}
    for name, node in made.items():
        assert node.raft.node_id == name
        assert node.raft.secret == node.broker.cluster_secret == "51de" * 16
        assert node.raft.peers == made["n0"].raft.peers
        assert (node.raft.tls_mode, node.raft.plain_peers()) == ("enforcing", [])
        assert node.raft.tls_certificate == str(tmp_path / "tls" / f"{name}.pem")
        assert node.raft.cluster_id == made["n0"].raft.cluster_id
        assert {**node.broker.peers, name: node.broker.advertised} == {
            f"n{n}": f"10.0.0.1{n}:10911" for n in range(3)
        }
        assert node.broker.name_servers == ("10.0.0.20:9876",)
        assert node.admin.listen == ("127.0.0.1", 8080)
    done(*later)
    for verb in ("run", "status", "join", "replace"):
        (words,) = lines("node", verb)
        check_options(words)
    (words,) = lines("nameserver")
    options = arguments_of("dledger nameserver").parse_args(words[1:])
    assert (options.listen, options.cluster_secret_file) == (
        "10.0.0.20:9876",
        Path("cluster.secret"),
    )


def test_the_systemd_unit_runs_a_node(
    tmp_path: Path, free_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What systemd would do with it: start, wait to be told, stop by SIGTERM."""
    unit = configparser.ConfigParser(interpolation=None, delimiters="=", strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names are as systemd's
    unit.read_string(UNIT.read_text("utf-8"))
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/dledger")
    with by_hand(tmp_path) as nodes, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        member = ["--member", f"n0={free_address}", "--admin", f"{free_address}:8080"]
        done("node", "init", str(nodes.file("n0")), *member, *SMALL_FLAGS)
        notices.bind(str(tmp_path / "notify"))
        assert unit["Service"]["Type"] == "notify"
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        here = [word.replace("/etc/dledger/node.toml", str(nodes.file("n0"))) for word in words]
        assert here != words
        nodes.start("n0", "cluster.cli", *here)
        assert notices.recv(100) == b"READY=1"
        nodes.serves("n0")
        assert nodes.stop("n0") == 0
        assert notices.recv(100) == b"STOPPING=1"
    # Wrong settings end with the code that the unit does not start again for.
    broken = nodes.file("n0")
    broken.write_text("[raft]\nnode = 1\n")
    with by_hand(tmp_path) as nodes:
        process = nodes.start("n0", "cluster.cli", *here)
        nodes.fails("n0")
        assert process.returncode == int(unit["Service"]["RestartPreventExitStatus"])
