"""Users and ACLs by the official mqadmin 5.3.3: each line ends cleanly and says what is so."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.local.launcher import LocalCluster
from tests.waiting import limit

from .harness import toolchains

VERSION = "5.3.3"
STARTUP = "org.apache.rocketmq.tools.command.MQAdminStartup"
CHIEF, PASSWORD = "mq-chief", "secret-of-mq-chief"
WRITER = "mq-writer"


class MqAdmin:
    """Runs lines of mqadmin against one cluster, signed as its tools.yml says."""

    def __init__(self, nameserver: str, folder: Path, java: list[str]) -> None:
        self._nameserver, self._home = nameserver, folder / "rocketmq"
        self._command = [*java, f"-Drocketmq.home.dir={self._home}", f"-Duser.home={folder}"]
        (self._home / "conf").mkdir(parents=True)

    def sign_as(self, user: str, password: str) -> None:
        text = f"accessKey: {user}\nsecretKey: {password}\n"
        (self._home / "conf" / "tools.yml").write_text(text)

    def says(self, line: str) -> str:
        """All that the line prints, in both streams."""
        done = subprocess.run(
            [*self._command, STARTUP, *line.split(), "-n", self._nameserver],
            capture_output=True,
            text=True,
            timeout=limit(60),
        )
        said = done.stdout + done.stderr
        print(f"$ mqadmin {line}\n{said}")
        return said


@pytest.mark.timeout(240)  # some twenty virtual machines, one after another
def test_users_and_acls(make_session_cluster: Callable[..., LocalCluster], tmp_path: Path) -> None:
    try:
        java = toolchains.java(VERSION)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))
    local = make_session_cluster(settings={"broker.cluster_secret": "one for all of this"})
    mq = MqAdmin(local.nameserver, tmp_path, java)
    on = "-c DefaultCluster"
    refused = mq.says(f"createUser {on} -u {WRITER} -p secret-of-mq-writer")
    assert "no administrator would be left" in refused
    assert "success" in mq.says(f"createUser {on} -u {CHIEF} -p {PASSWORD} -t Super")
    assert "wants an account" in mq.says(f"listUser {on}"), "nothing signs it yet"

    mq.sign_as(CHIEF, PASSWORD)
    assert "success" in mq.says(f"createUser {on} -u {WRITER} -p secret-of-mq-writer")
    listed = mq.says(f"listUser {on}")
    assert {CHIEF, WRITER} <= set(listed.split())
    assert PASSWORD not in listed
    assert listed.split().count("Super") == listed.split().count("Normal") > 0
    assert "success" in mq.says(f"updateUser {on} -u {WRITER} -s disable")
    # A signature of this kind covers no field's name, so nothing is asked for by the whole name of
    # the user that is deleted within a minute (cluster/core/access/README.md).
    assert "disable" in mq.says(f"listUser {on} -f {WRITER[:-1]}")
    assert "Super" in mq.says(f"getUser {on} -u {CHIEF}")
    assert "success" in mq.says(f"updateUser {on} -u {WRITER} -s enable")

    acl = f"{on} -s User:{WRITER} -r Topic:orders*,Group:billing -i 127.0.0.1"
    assert "success" in mq.says(f"createAcl {acl} -a Sub -d Allow")
    found = mq.says(f"getAcl {on} -s User:{WRITER}")
    assert {"Topic:orders*", "Group:billing", "Allow"} <= set(found.split())
    assert "success" in mq.says(f"updateAcl {acl} -a Sub -d Deny")
    found = mq.says(f"listAcl {on} -s {WRITER} -r Topic")
    assert "Deny" in found.split()
    assert "Allow" not in found.split()
    refused = mq.says(f"createAcl {on} -s User:{WRITER} -r Cluster:* -a Create -d Allow")
    assert "user type Super" in refused
    assert "success" in mq.says(f"deleteAcl {on} -s User:{WRITER} -r Topic:orders*")
    assert "Topic:orders*" not in mq.says(f"getAcl {on} -s User:{WRITER}")
    assert "no administrator would be left" in mq.says(f"updateUser {on} -u {CHIEF} -t Normal")
    assert "success" in mq.says(f"deleteUser {on} -u {WRITER}")
    assert WRITER not in mq.says(f"listUser {on}")
