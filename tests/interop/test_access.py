"""Accounts and TLS, with the official Java client: a cluster of its own for each.

What the accounts are and who may what is in plain_acl.yml's shape; refusals must be code 16.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.client import ClientConfig
from cluster.client.config import Account
from cluster.local.launcher import LocalCluster
from tests.waiting import limit

from .conftest import Case, cases
from .harness import toolchains
from .harness.checks import CHECKS, Seen, once_each
from .harness.content import create_topics, labels, read_topic
from .harness.running import Facts, Run, run

VERSIONS = ("4.9.8", "5.3.3", "5.5.0")
ACCOUNTS = """\
accounts:
- accessKey: interop-full
  secretKey: secret-of-full
  admin: true
- accessKey: interop-reads
  secretKey: secret-of-reads
  admin: false
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
- accessKey: interop-slowed
  secretKey: secret-of-slowed
  admin: false
  defaultTopicPerm: PUB
  defaultGroupPerm: PUB
  maxMessages: 20
"""
QUOTA, QUOTA_WAYS = 20, ("hasty", "async", "oneway", "patient")
CERTIFICATES = Path(__file__).parents[1] / "data" / "tls"
ACCOUNT_OPTIONS = [
    *("-Dacl.key=interop-full", "-Dacl.secret=secret-of-full"),
    *("-Dacl.reader=interop-reads", "-Dacl.readerSecret=secret-of-reads"),
]
SLOWED_OPTIONS = [
    *("-Dacl.key=interop-slowed", "-Dacl.secret=secret-of-slowed", f"-Dquota.messages={QUOTA}"),
]
# The settings of [broker] that this needs.
ACCOUNTS_FILE = "broker.acl_file"
TLS_MODE, TLS_CERTIFICATE, TLS_KEY = "broker.tls_mode", "broker.tls_certificate", "broker.tls_key"


def java(version: str) -> list[str]:
    try:
        return toolchains.java(version)
    except toolchains.Missing as missing:
        pytest.skip(str(missing))


def scenario(
    local: LocalCluster, folder: Path, version: str, name: str, options: list[str]
) -> Facts:
    """The facts of one scenario in a run of its own."""
    prefix = f"T{version.replace('.', '')}"
    done: Run = run(
        [*java(version), *options, "interop.Main", local.nameserver, prefix, name], folder / version
    )
    return done.of(name)


def create_with_account(local: LocalCluster, folder: Path, topics: list[str]) -> None:
    """Topics by the official tools, which sign as tools.yml says: nobody else may."""
    home = folder / "rocketmq"
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf" / "tools.yml").write_text("accessKey: interop-full\nsecretKey: secret-of-full\n")
    command = [*java("5.3.3"), f"-Drocketmq.home.dir={home}", f"-Duser.home={folder}"]
    for topic in topics:
        line = ["updateTopic", "-n", local.nameserver, "-c", "DefaultCluster", "-t", topic]
        done = subprocess.run(
            [*command, "org.apache.rocketmq.tools.command.MQAdminStartup", *line],
            capture_output=True,
            text=True,
            timeout=limit(60),
        )
        assert "success" in done.stdout, done.stdout + done.stderr


@pytest.fixture(scope="module")
def guarded(
    make_session_cluster: Callable[..., LocalCluster], tmp_path_factory: pytest.TempPathFactory
) -> tuple[LocalCluster, Path]:
    java("5.3.3")
    folder = tmp_path_factory.mktemp("acl")
    file = folder / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    local = make_session_cluster(
        settings={ACCOUNTS_FILE: str(file), "broker.cluster_secret": "one for all"}
    )
    names = [f"T{v.replace('.', '')}_{name}" for v in VERSIONS for name in ("acl", "quota")]
    create_with_account(local, folder, names)
    return local, folder


@pytest.mark.timeout(200)
@pytest.mark.parametrize("case", cases([Case("access", "acl", v) for v in VERSIONS]))
def test_accounts(case: Case, guarded: tuple[LocalCluster, Path]) -> None:
    local, folder = guarded
    facts = scenario(local, folder, case.version, "acl", ACCOUNT_OPTIONS)
    # Java 4.x clients are told the same code.
    CHECKS["acl"](Seen(facts, "", local.nameserver))


@pytest.mark.timeout(200)
@pytest.mark.parametrize("case", cases([Case("access", "quota", v) for v in VERSIONS]))
def test_quota(case: Case, guarded: tuple[LocalCluster, Path]) -> None:
    """What a program sees of the quota that knows nothing of it, in each way to send."""
    local, folder = guarded
    facts = scenario(local, folder, case.version, "quota", SLOWED_OPTIONS)
    account = ClientConfig(account=Account("interop-full", "secret-of-full"))
    topic = f"T{case.version.replace('.', '')}_quota"
    stored = labels(read_topic(local.nameserver, topic, account))
    ways = {way: [one for one in stored if one.startswith(way)] for way in QUOTA_WAYS}
    for way in ("hasty", "async", "patient"):  # what was acknowledged, and nothing that was refused
        assert sorted(ways[way]) == sorted(facts[way]["acked"]), way
    # From 5.0 on three attempts within a few ms, else one: neither outlasts a quota.
    once, thrice = "MQBrokerException 2", "MQClientException 2"
    for way, caught in (("hasty", once if case.version < "5" else thrice), ("async", once)):
        assert facts[way]["refused"].keys() == {caught}, facts[way]
        assert len(ways[way]) + facts[way]["refused"][caught] == 3 * QUOTA
        assert len(ways[way]) >= QUOTA
    assert "20 messages a second are its quota" in facts["async"]["text"]
    assert facts["oneway"]["refused"] == {}, "a program hears nothing of it"
    assert QUOTA <= len(ways["oneway"]) < 3 * QUOTA
    assert sorted(ways["patient"]) == sorted(f"patient-{n}" for n in range(3 * QUOTA))
    assert facts["patient"]["seconds"] >= 1.5, "two seconds' allowance came meanwhile"


@pytest.fixture(scope="module", params=["permissive", "enforcing"])
def encrypted(
    request: pytest.FixtureRequest,
    make_session_cluster: Callable[..., LocalCluster],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, LocalCluster, Path]:
    java("5.3.3")
    folder = tmp_path_factory.mktemp("tls")
    files = {TLS_CERTIFICATE: "server.pem", TLS_KEY: "server.key"}
    settings = {name: str(CERTIFICATES / file) for name, file in files.items()}
    settings[TLS_MODE] = request.param
    return request.param, make_session_cluster(settings=settings), folder


@pytest.mark.timeout(200)
@pytest.mark.parametrize("case", cases([Case("access", "tls", v) for v in VERSIONS]))
def test_tls(case: Case, encrypted: tuple[str, LocalCluster, Path]) -> None:
    mode, local, folder = encrypted
    if mode == "permissive":
        create_topics(local.nameserver, [f"T{case.version.replace('.', '')}_tls"])
    facts = scenario(local, folder, case.version, "tls", [])
    CHECKS["tls"](Seen(facts, "", local.nameserver))
    if mode == "permissive":  # without TLS on the same port
        plain = f"T{case.version.replace('.', '')}_tag_filter"
        create_topics(local.nameserver, [plain])
        both = scenario(local, folder, case.version, "tag_filter", [])
        once_each(both["received"], [f"f-{n}" for n in range(30) if n % 3 != 1])
