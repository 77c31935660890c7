"""`dledger tls init|show|renew`, and `dledger node init --certificates`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.local.node_main import ReplicaService
from cluster.settings.node import build_node, read_node
from dledger.errors import NotFormatted


def said(*arguments: str, code: int = 0) -> str:
    found = CliRunner().invoke(dledger, [*arguments])
    assert found.exit_code == code, found.output
    return found.output


def test_made_shown_and_renewed(tmp_path: Path) -> None:
    folder = str(tmp_path / "tls")
    made = said("tls", "init", folder, "--node", "n0=127.0.0.1,localhost", "--client", "app")
    assert f"wrote {folder}/n0.pem" in made
    rows = {row["file"]: row for row in json.loads(said("tls", "show", folder, "-o", "json"))}
    assert rows["n0.pem"]["names"] == ["dledger-node:n0", "127.0.0.1", "localhost"]
    assert rows["client-app.pem"]["signed_by"] == "dledger clients"
    assert 395 <= rows["n0.pem"]["days_left"] <= 397
    assert "none of" in said("tls", "renew", folder)
    shorter = said("tls", "renew", folder, "--within", "400", "--days", "90")
    assert "n0.pem" in shorter
    assert "authority.pem" not in shorter
    rows = {row["file"]: row for row in json.loads(said("tls", "show", folder, "-o", "json"))}
    assert 88 <= rows["n0.pem"]["days_left"] <= 90
    assert "authority.pem" in said("tls", "renew", folder, "--all")


def test_a_node_that_is_made_with_them_encrypts_to_peers(tmp_path: Path) -> None:
    folder, file = tmp_path / "tls", tmp_path / "n0.toml"
    said("tls", "init", str(folder), "--node", "n0=10.0.0.1", "--node", "n1=10.0.0.2")
    members = ["--member", "n0=10.0.0.1", "--member", "n1=10.0.0.2"]
    said("node", "init", str(file), *members, "--certificates", str(folder), "--no-format")
    made = build_node(read_node(file, {}))
    assert (made.raft.tls_mode, made.broker.tls_mode) == ("enforcing", "permissive")
    assert made.raft.tls_certificate == str(folder / "n0.pem")
    (tmp_path / "n0.toml").unlink()
    modes = ["--set", "broker.tls_mode=enforcing", "--set", "raft.tls_mode=permissive"]
    own = ["--certificates", str(folder), *modes, "--no-format"]
    said("node", "init", str(file), *members, *own)
    made = build_node(read_node(file, {}))
    assert (made.raft.tls_mode, made.broker.tls_mode) == ("permissive", "enforcing")
    other = tmp_path / "n1.toml"
    like = ["--like", str(file), "--name", "n1", "--certificates", str(folder), "--no-format"]
    said("node", "init", str(other), *like)
    made = build_node(read_node(other, {}))
    assert (made.raft.tls_key, made.broker.tls_key) == (str(folder / "n1.key"),) * 2
    assert (made.raft.tls_mode, made.broker.tls_mode) == ("permissive", "enforcing"), "as n0"


BEYOND = ["--member", "n0=10.0.0.1", "--member", "n1=127.0.0.1"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (BEYOND, "n0: beyond this machine, and without TLS"),
        ([*BEYOND, "--certificates", "."], ". has no certificate of n0"),
        ([*BEYOND, "--certificates", "half"], "has n0.pem and not n0.key; copy it there"),
        ([*BEYOND, "--certificates", "other"], "has n0.pem and not authority.pem; copy it there"),
        ([*BEYOND, "--certificates", "tls", "--no-tls"], "exclude each other; give one"),
        (["--like", "with.toml", "--name", "n1"], "give --certificates FOLDER, which has that of"),
        (["--like", "with.toml", "--name", "n1", "--no-tls"], "raft.tls_mode is enforcing"),
        (["--member", "a=h1", "--member", "b=h2"], "a, b: beyond this machine"),
    ],
)
def test_peers_beyond_this_machine_are_refused_without_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said("tls", "init", "tls", "--node", "n0=10.0.0.1", "--node", "n1=10.0.0.2")
    for folder, files in {"half": ["n0.pem"], "other": ["n0.pem", "n0.key"]}.items():
        Path(folder).mkdir()
        for file in files:
            Path(folder, file).write_bytes(Path("tls", file).read_bytes())
    said("node", "init", "with.toml", *BEYOND, "--certificates", "tls", "--no-format")
    found = CliRunner().invoke(dledger, ["node", "init", "new.toml", *options])
    assert found.exit_code != 0
    assert sentence in f"{found.output} {found.exception}"
    assert not Path("new.toml").exists()
    assert not list(tmp_path.glob("*-data"))


def test_peers_may_do_without_tls_where_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said("node", "init", "n0.toml", *BEYOND, "--no-tls", "--no-format")
    said("node", "init", "n1.toml", "--like", "n0.toml", "--name", "n1", "--no-format")
    for name, plain in {"n0": [], "n1": ["n0"]}.items():
        made = build_node(read_node(Path(f"{name}.toml"), {})).raft
        assert (made.tls_mode, made.plain_peers()) == ("disabled", plain)
    local = ["--member", "n0=127.0.0.1", "--member", "n1=127.0.0.2"]
    said("node", "init", "local.toml", *local, "--no-format")
    assert build_node(read_node(Path("local.toml"), {})).raft.plain_peers() == []


@pytest.mark.parametrize(("mode", "told"), [("--no-tls", 1), ("--certificates=tls", 0)])
async def test_a_node_warns_once_of_peers_without_tls(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mode: str,
    told: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    said("tls", "init", "tls", "--node", "n0=127.0.0.1")
    members = ["--member", "n0=127.0.0.1", "--member", "n1=192.0.2.1"]
    said("node", "init", "n0.toml", *members, mode, "--no-format")
    replica = ReplicaService(build_node(read_node(Path("n0.toml"), {})))
    with pytest.raises(NotFormatted):  # the warning does not wait for the node
        await replica.start()
    found = [one.getMessage() for one in caplog.records if "without TLS" in one.getMessage()]
    assert len(found) == told
    assert all(text.startswith("n0 and n1 send each other") for text in found)


def test_a_nodes_own_file_keeps_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said("tls", "init", "tls", "--node", "n0=10.0.0.1", "--node", "n1=10.0.0.2")
    said("node", "init", "a.toml", *BEYOND, "--certificates", "tls", "--no-format")
    said("node", "init", "b.toml", "--like", "a.toml", "--name", "n0", "--no-format")
    made = build_node(read_node(Path("b.toml"), {})).raft
    assert made.tls_certificate == str(tmp_path / "tls" / "n0.pem")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["init", "FOLDER"], "no certificate is asked for; say --node NAME=HOST"),
        (["init", "FOLDER", "--node", "n0"], "'n0' is not of the form NAME=HOST[,HOST]"),
        (["init", "FOLDER", "--node", "n0=10.0.0.0/8"], "is not of the form"),
        (["init", "FOLDER", "--node", "../n0=10.0.0.1"], "can be the name of no node"),
        (["init", "FOLDER", "--node", "authority=10.0.0.1"], "can be the name of no node"),
        (["init", "FOLDER", "--node", "n0=b\u00fccher.example"], "is not of the form"),
        (["init", "FOLDER", "--node", "n0=10.0.0.1:10911"], "is not of the form"),
        (["init", "FOLDER", "--node", f"{'n' * 57}=10.0.0.1"], "can be the name of no node"),
        (["init", "FOLDER", "--node", "client-a=10.0.0.1"], "is the name of a client's file"),
        (["init", "FOLDER", "--client", "a", "--client", "a"], "a name is given twice"),
        (["show", "FOLDER"], "holds no certificates; make some with dledger tls init"),
        (["renew", "FOLDER"], "holds no certificates; make some with dledger tls init"),
    ],
)
def test_wrong_uses(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    found = CliRunner().invoke(
        dledger, ["tls", *(one.replace("FOLDER", str(tmp_path / "tls")) for one in arguments)]
    )
    assert found.exit_code != 0
    assert sentence in " ".join(found.output.split()) + str(found.exception)
    assert not (tmp_path / "tls").exists()
