"""`dledger tls init|show|renew`, and `dledger node init --tls`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.settings.node import build_node, read_node


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
