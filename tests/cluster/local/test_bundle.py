"""An archive for a bug report: what is in it, and that no secret is."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster.cli import dledger
from cluster.local import plan
from cluster.local.bundle import MASK, Masked
from cluster.local.launcher import LocalCluster
from cluster.local.profile import NoCluster

PASSWORD = "correct horse battery staple"


@pytest.fixture
def hosts(new_address: Callable[[], str]) -> list[str]:
    """Where no cluster runs, not even one of this machine's owner."""
    return [new_address(), new_address()]


def made(tmp_path: Path, hosts: Sequence[str]) -> tuple[LocalCluster, dict[str, str]]:
    """A stopped cluster whose node has logged a secret, and the texts of its bundle."""
    root, out = tmp_path / "local", tmp_path / "bundle.tar.gz"
    cluster = LocalCluster.create(root, plan.plan(1, hosts))
    secret = cluster.profile.settings["raft.secret"]
    folder = cluster.folder("n0")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.txt").write_text(f"a line with {secret} and {PASSWORD} in it\n")
    (folder / "log.1.txt").write_text("an older line\n")
    found = CliRunner().invoke(dledger, ["bundle", str(out), "--root", str(root)])
    assert found.exit_code == 0, found.output
    assert out.stat().st_mode & 0o077 == 0, "for its owner only"
    with tarfile.open(out) as archive:
        texts = {}
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            texts[member.name] = file.read().decode()
    return cluster, texts


def test_bundle_has_all_of_a_stopped_cluster_and_no_secret(
    tmp_path: Path, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those of the settings nor those of the environment, also within a log line."""
    monkeypatch.setenv("MY_PASSWORD", PASSWORD)
    cluster, texts = made(tmp_path, hosts)
    secrets = [PASSWORD, *(cluster.profile.settings[name] for name in cluster.profile.settings)]
    assert len(secrets) > 2
    for name, text in texts.items():
        assert not [secret for secret in secrets if secret in text], name
    assert texts["bundle/n0/log.txt"] == f"a line with {MASK} and {MASK} in it\n"
    assert texts["bundle/n0/log.1.txt"] == "an older line\n"
    assert "it does not answer" in texts["bundle/n0/status.json"]
    keys = {row["key"]: row for row in json.loads(texts["bundle/n0/settings.json"])}
    assert keys["raft.secret"]["value"] == MASK
    assert keys["raft.node_id"]["value"] == "n0"
    assert "log.txt" in texts["bundle/n0/files.txt"]
    assert json.loads(texts["bundle/about.json"])["packages"]["dledger"]
    assert json.loads(texts["bundle/profile.json"])["members"]


def test_file_that_is_there_is_not_replaced(tmp_path: Path, hosts: list[str]) -> None:
    cluster, _ = made(tmp_path, hosts)
    out = tmp_path / "bundle.tar.gz"
    before = out.read_bytes()
    found = CliRunner().invoke(dledger, ["bundle", str(out), "--root", str(cluster.root)])
    assert isinstance(found.exception, FileExistsError)
    assert out.read_bytes() == before


def test_secret_that_contains_another_one_leaves_no_part() -> None:
    assert Masked(["secret", "secretary", "abc"])("the secretary has a secret, abc") == (
        f"the {MASK} has a {MASK}, abc"
    )


def test_no_cluster_is_told(tmp_path: Path) -> None:
    found = CliRunner().invoke(dledger, ["bundle", "--root", str(tmp_path / "none")])
    assert isinstance(found.exception, NoCluster)
    assert not list(tmp_path.glob("*.tar.gz"))
