"""Image and compose file, read as an engine would; what they run is run here without one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from cluster.cli import dledger
from cluster.local.nameserver_main import arguments_of
from cluster.settings.node import build_node, read_node
from tests.architecture.test_installed import UV
from tests.waiting import limit

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
NODES = ("n0", "n1", "n2")
IGNORED = {"__pycache__"}


def instructions() -> list[tuple[str, str]]:
    """(name, rest) of each line of the Dockerfile, those that go on joined."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = (line.partition(" ") for line in text.splitlines() if line and line[0] != "#")
    return [(name, rest.strip()) for name, _, rest in lines]


def last_of(name: str) -> str:
    return next(rest for found, rest in reversed(instructions()) if found == name)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    return found


def test_the_image_runs_without_root_and_gets_signals_itself() -> None:
    user = last_of("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "Kubernetes sees a number only"
    assert f"--uid {user.partition(':')[0]} " in " ".join(rest for _, rest in instructions())
    assert last_of("ENTRYPOINT") == '["dledger"]', "a shell in between would take SIGTERM"
    assert last_of("STOPSIGNAL") == "SIGTERM"
    assert last_of("VOLUME") == "/var/lib/dledger"
    assert last_of("EXPOSE").split() == ["10911", "10915", "20911", "8080", "9876"]
    names = [name for name, _ in instructions()]
    assert "ADD" not in names
    assert names.index("USER") > max(n for n, name in enumerate(names) if name == "RUN")


def test_the_image_has_the_locked_versions_of_what_a_server_needs() -> None:
    (sync,) = (rest for _, rest in instructions() if "uv sync" in rest)
    assert sync.split()[2:] == [
        *("--locked", "--no-default-groups", "--extra", "server", "--no-editable")
    ]
    bases = {rest.split()[0] for name, rest in instructions() if name == "FROM"}
    assert len(bases) == 1, "what is compiled for one Python does not run on another"


def taken() -> Iterator[str]:
    """What .dockerignore lets in, of the top level and below deploy/."""
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert lines[1] == "*"
    yield from (line[1:] for line in lines if line.startswith("!"))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_image_can_be_built_from_what_it_is_given(tmp_path: Path) -> None:
    """The build's own command, in a folder that has what the engine would send."""
    if UV is None:
        pytest.skip("needs uv")
    source, environment = tmp_path / "src", tmp_path / "opt"
    for name in taken():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=lambda _, names: {*names} & IGNORED)
        else:
            shutil.copy(ROOT / name, source / name)
    (sync,) = (rest for _, rest in instructions() if "uv sync" in rest)
    command = [UV, *sync.split()[1:], "--python", sys.executable]
    extra = {"UV_PROJECT_ENVIRONMENT": str(environment), "UV_PYTHON_DOWNLOADS": "never"}
    done = subprocess.run(
        command,
        cwd=source,
        env=os.environ | extra,
        capture_output=True,
        text=True,
        timeout=limit(800),
    )
    assert done.returncode == 0, done.stderr
    shutil.rmtree(source)  # nothing of it is needed any more
    asked = [str(environment / "bin" / "dledger"), "node", "--help"]
    assert "run" in subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert not list(environment.glob("bin/pytest"))


def test_every_service_is_locked_up_and_has_time_to_stop(services: dict[str, Any]) -> None:
    assert set(services) == {"first-start", "ns", *NODES}
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["stop_grace_period"] == "30s"
        assert "privileged" not in service
        assert all(volume.startswith(("n", "ns:")) for volume in service["volumes"])
        if name != "first-start":
            assert service["restart"] == "on-failure"


@pytest.mark.parametrize("name", NODES)
def test_a_node_is_healthy_when_it_serves(services: dict[str, Any], name: str) -> None:
    service = services[name]
    file = f"/var/lib/dledger/{name}/node.toml"
    context = read_options(service["command"])
    assert [str(path) for path in context.params["files"]] == [file]
    kind, words = service["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    *asked, glob = words.split()
    assert asked == ["dledger", "node", "status"]
    assert fnmatch(file, glob)
    assert service["volumes"] == [f"{name}:/var/lib/dledger/{name}"]


def read_options(words: list[str]) -> click.Context:
    """Click reads them all, down to the last command; nothing is run."""
    command: click.Command = dledger
    context = click.Context(command)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
    # The file is inside the container: it need not be there.
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            parameter.type.exists = False
    try:
        return command.make_context("dledger", list(words))
    finally:
        for parameter in command.params:
            if isinstance(parameter.type, click.Path):
                parameter.type.exists = True


def test_the_name_server_is_healthy_when_its_port_is_open(services: dict[str, Any]) -> None:
    service = services["ns"]
    options = arguments_of("dledger nameserver").parse_args(service["command"][1:])
    assert (options.listen, options.open_to_network) == ("0.0.0.0:9876", True)
    assert str(options.cluster_secret_file) == "/var/lib/dledger/ns/cluster.secret"
    kind, python, flag, program = service["healthcheck"]["test"]
    assert (kind, python, flag) == ("CMD", "python", "-c")
    compile(program, "healthcheck", "exec")
    assert "9876" in program


@pytest.mark.long
def test_first_start_makes_a_cluster_once(tmp_path: Path) -> None:
    script = str(DEPLOY / "first-start.sh")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = ["sh", script, str(tmp_path)]
    done = subprocess.run(
        run, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=limit(60)
    )
    assert done.returncode == 0, done.stderr
    made = {name: build_node(read_node(tmp_path / name / "node.toml", {})) for name in NODES}
    assert {node.raft.cluster_id for node in made.values()} == {made["n0"].raft.cluster_id}
    for name, node in made.items():
        assert node.raft.node_id == name
        assert node.raft.peers == {n: (n, 20911) for n in NODES}
        assert node.broker.advertised == f"{name}:10911"
        assert node.broker.name_servers == ("ns:9876",)
        assert (node.raft.data_dir / "identity").exists()
        assert (tmp_path / name / "node.toml").stat().st_mode & 0o077 == 0
    secret = tmp_path / "ns" / "cluster.secret"
    assert secret.read_text().strip() == made["n0"].broker.cluster_secret
    assert secret.stat().st_mode & 0o077 == 0
    # A node that lost its volume is not made again beside the others.
    shutil.rmtree(tmp_path / "n0")
    again = subprocess.run(
        run, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=limit(60)
    )
    assert again.returncode == 1
    assert "dledger node replace" in again.stderr
    assert not (tmp_path / "n0").exists()


def test_a_first_start_that_fails_can_be_run_again(tmp_path: Path) -> None:
    """It takes back what it made, and touches no data that was there before."""
    script, programs = str(DEPLOY / "first-start.sh"), tmp_path / "bin"
    programs.mkdir()
    root = tmp_path / "root"
    for name, body in {
        "python": "echo secret",
        # Makes what `dledger node init FILE` makes, but no third node.
        "dledger": 'folder=$(dirname "$3"); case $folder in */n2) exit 2;; esac; '
        'mkdir "$folder/$(basename "$folder")-data"; touch "$3"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", script, str(root)], env=environment, capture_output=True, text=True,
            timeout=limit(60),
        )  # fmt: skip

    assert run().returncode == 2
    assert [path for path in root.rglob("*") if not path.is_dir()] == []
    assert not (root / "n0" / "n0-data").exists()
    kept = root / "n1" / "n1-data"
    kept.mkdir()
    (kept / "log").touch()
    refused = run()
    assert (refused.returncode, "move it away" in refused.stderr) == (1, True)
    assert (kept / "log").exists()
    shutil.rmtree(kept)
    working = (
        (programs / "dledger").read_text().replace("case $folder in */n2) exit 2;; esac; ", "")
    )
    (programs / "dledger").write_text(working)
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert (root / "n2" / "node.toml").exists()
