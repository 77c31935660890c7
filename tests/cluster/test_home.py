"""Secrets of a local cluster: drawn for it, its owner's alone, and shown by nothing."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from cluster.home import write_private
from cluster.local import nameserver_files, plan, profile
from cluster.local.launcher import LocalCluster
from cluster.local.node_files import write_node_file
from cluster.local.profile import BROKER, NAMESERVER
from cluster.settings.node import build_node, read_node

SECRETS = ("raft.secret", "broker.cluster_secret")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def made(tmp_path: Path) -> LocalCluster:
    return LocalCluster.create(tmp_path / "c", plan.plan(3, plan.scratch_hosts(3)))


def test_a_cluster_draws_secrets_of_its_own(made: LocalCluster, tmp_path: Path) -> None:
    other = LocalCluster.create(tmp_path / "d", plan.plan(1, plan.scratch_hosts(1)))
    drawn = [cluster.profile.settings[name] for cluster in (made, other) for name in SECRETS]
    assert len(set(drawn)) == 4
    assert all(len(secret) == 64 for secret in drawn)
    for member in made.profile.of_kind(BROKER):
        node = build_node(read_node(write_node_file(made.root, made.profile, member), {}))
        assert (node.raft.secret, node.broker.cluster_secret) == tuple(drawn[:2])


def test_a_secret_that_is_given_is_kept(tmp_path: Path) -> None:
    given = {"raft.secret": "given by its owner", "broker.cluster_secret": "given, too"}
    cluster = LocalCluster.create(tmp_path / "c", plan.plan(1, plan.scratch_hosts(1)), given)
    assert {name: cluster.profile.settings[name] for name in SECRETS} == given


def test_every_file_with_a_secret_is_its_owner_s(made: LocalCluster) -> None:
    """Whatever the umask is."""
    before = os.umask(0)
    try:
        profile.save(made.root, made.profile)
        for member in made.profile.of_kind(BROKER):
            write_node_file(made.root, made.profile, member)
        name_server = made.profile.of_kind(NAMESERVER)[0]
        arguments = nameserver_files.arguments(made.root, made.profile, name_server)
    finally:
        os.umask(before)
    secrets = [made.profile.settings[name] for name in SECRETS]
    files = [path for path in made.root.rglob("*") if path.is_file()]
    holding = [path for path in files if any(text in path.read_text() for text in secrets)]
    assert len(holding) == 5, "the profile, three nodes, the name server's file"
    assert {oct(_mode(path)) for path in holding} == {"0o600"}
    assert not any(secret in " ".join(arguments) for secret in secrets), "ps shows arguments"


def test_no_repr_shows_a_secret(made: LocalCluster) -> None:
    member = made.profile.of_kind(BROKER)[0]
    node = build_node(read_node(write_node_file(made.root, made.profile, member), {}))
    shown = f"{made.profile!r} {node!r} {node.raft!r} {node.broker!r}"
    assert not any(made.profile.settings[name] in shown for name in SECRETS)


def test_what_a_crash_left_does_not_open_the_next_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    left = tmp_path / "secret.tmp"
    left.write_text("half")
    left.chmod(0o644)
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert (path.read_text(), _mode(path), left.exists()) == ("new", 0o600, False)


def test_a_file_that_could_not_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the old file stays, and no half of the new one beside it."""
    path = tmp_path / "node.toml"
    write_private(path, "old")

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "no space left on device", str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        write_private(path, "new")
    assert [file.name for file in tmp_path.iterdir()] == ["node.toml"]
    assert path.read_text() == "old"
