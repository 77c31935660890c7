"""`dledger node` as one who runs the nodes himself meets it."""

from __future__ import annotations

import os
import re
import socket
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.local import admin
from cluster.settings.node import build_node, read_node
from tests.integration.nodes_by_hand import ROOT, SMALL_FLAGS, by_hand, dledger, done


def test_systemd_is_told_and_the_log_goes_where_it_is_wanted(
    tmp_path: Path, free_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with by_hand(tmp_path) as nodes, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        member = ["--member", f"n0={free_address}", "--admin", f"{free_address}:8080"]
        done("node", "init", str(nodes.file("n0")), *member, *SMALL_FLAGS)
        nodes.run("n0", "--log-to", "stdout")
        assert notices.recv(100) == b"READY=1"
        assert admin.get(f"{free_address}:8080", "/healthz")[0] == 200
        assert nodes.stop("n0") == 0
        assert notices.recv(100) == b"STOPPING=1"
        assert "n0 serves broker-a" in nodes.log("n0")


def test_the_example_of_three_works_as_it_says(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    """Only what its first lines tell the reader to change is changed."""
    text = (ROOT / "conf/broker-of-three.toml").read_text("utf-8")
    with by_hand(tmp_path) as nodes:
        hosts = [new_address() for _ in range(4)]
        nodes.name_server(hosts[3])
        for n, name in enumerate(("n0", "n1", "n2")):
            others = ", ".join(f'n{m} = "{hosts[m]}:10911"' for m in range(3) if m != n)
            changes = {
                "node_id": f'"{name}"',
                "cluster_id": '"of-three"',
                "secret": '"' + "51de" * 16 + '"',
                "cluster_secret": '"' + "71de" * 16 + '"',
                "root": f'"{tmp_path / name}"',
                "listen_host": f'"{hosts[n]}"',
                "advertised": f'"{hosts[n]}:10911"',
                "name_servers": f'["{hosts[3]}:9876"]',
                "listen": f'"{hosts[n]}:8080"',
            }
            peers = ", ".join(f'n{m} = "{hosts[m]}:20911"' for m in range(3))
            edited = re.sub(r"^peers = .*10911.*$", f"peers = {{ {others} }}", text, flags=re.M)
            edited = re.sub(r"^peers = .*20911.*$", f"peers = {{ {peers} }}", edited, flags=re.M)
            for key, value in changes.items():
                edited, count = re.subn(rf"^{key} = .*$", f"{key} = {value}", edited, flags=re.M)
                assert count == 1, key
            told = text.partition("# 4.")[0]
            assert all(key in told for key in (*changes, "peers")), "the page names what to change"
            file = nodes.file(name)
            file.parent.mkdir()
            file.write_text(edited)
            file.chmod(0o600)
            done("config", "check", str(file))
            done("node", "format", str(file))
            nodes.run(name)
        for name in ("n0", "n1", "n2"):
            nodes.serves(name)
        done("produce", "orders", "-a", f"{hosts[3]}:9876", stdin="hi\n")
        assert done("consume", "orders", "-n", "1", "-a", f"{hosts[3]}:9876") == "hi\n"


def test_an_account_with_few_rights_may_name_any_node(
    tmp_path: Path, new_address: Callable[[], str]
) -> None:
    """A node tells where routes are to whoever has an account, not to administrators only."""
    rights = "accounts:\n- accessKey: orders\n  secretKey: orders-secret\n"
    (tmp_path / "acl.yml").write_text(f"{rights}  topicPerms:\n  - orders=PUB|SUB\n")
    (tmp_path / "tools.yml").write_text("accessKey: orders\nsecretKey: orders-secret\n")
    with by_hand(tmp_path) as nodes:
        host, name_server = new_address(), nodes.name_server(new_address())
        member = ["--member", f"n0={host}", "--admin", f"{host}:8080"]
        access = ["--set", f"broker.acl_file={tmp_path / 'acl.yml'}"]
        where = ["--name-server", name_server]
        done("node", "init", str(nodes.file("n0")), *member, *where, *access, *SMALL_FLAGS)
        nodes.run("n0")
        nodes.serves("n0")
        reach = ["-a", f"{host}:10911"]
        account = ["--account", str(tmp_path / "tools.yml")]
        assert "1 acknowledged" in done("produce", "orders", *reach, *account, stdin="hi\n")
        code, said = dledger("produce", "orders", *reach, stdin="hi\n")
        assert (code != 0, "--account FILE gives the account" in said) == (True, True)


def test_the_example_is_refused_until_its_secrets_are_changed(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text((ROOT / "conf/broker-of-three.toml").read_text("utf-8"))
    for command in (["config", "check"], ["node", "format"], ["node", "run"]):
        code, said = dledger(*command, str(file))
        assert code != 0
        assert "is still the example's text" in said, command
    file.write_text(re.sub(r"^secret = .*$", 'secret = "short"', file.read_text(), flags=re.M))
    code, said = dledger("node", "run", str(file))
    assert code != 0
    assert "secret has 5 characters" in said
    assert [path.name for path in tmp_path.iterdir()] == ["node.toml"]


def test_a_check_reads_the_accounts_and_says_which_secrets_others_may_read(tmp_path: Path) -> None:
    file, accounts = tmp_path / "node.toml", tmp_path / "plain_acl.yml"
    done("node", "init", str(file), *SMALL_FLAGS, "--set", f"broker.acl_file={accounts}")
    accounts.write_text("accounts:\n- accessKey: orders\n  secretKey: change me\n")
    accounts.chmod(0o644)
    code, said = dledger("config", "check", str(file))
    assert (code, "account 'orders': secretKey is still the example's text" in said) == (1, True), (
        said
    )
    accounts.write_text("accounts:\n- accessKey: orders\n  secretKey: of-orders\n")
    said = done("config", "check", str(file))
    assert f"{accounts} holds secrets and others may use it (mode 644)" in said
    accounts.chmod(0o600)
    assert "others" not in done("config", "check", str(file))
    accounts.unlink()
    code, said = dledger("config", "check", str(file))
    assert (code, str(accounts) in said) == (1, True), said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--member", "n0"], "'n0' is no member; write NAME=HOST"),
        (["--member", "n0=h", "--name", "n1"], "n1 is not among the members n0"),
        (["--set", "raft.heartbeat=1"], "did you mean raft.heartbeat_ms"),
        (["--set", "raft.secret=short"], "secret has 5 characters"),
        (["--set", "broker.cluster_secret=change me please"], "still the example's text"),
        (["--listen", "0.0.0.0", "--set", "broker.advertised=0.0.0.0:1"], "no client can dial"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(tmp_path: Path, options: list[str], said: str) -> None:
    code, text = dledger("node", "init", str(tmp_path / "x" / "node.toml"), *options)
    assert code != 0
    assert said in text
    assert not list(tmp_path.iterdir())


def test_a_file_and_a_folder_are_made_once(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    done("node", "init", str(file), *SMALL_FLAGS)
    before = file.read_text()
    code, said = dledger("node", "init", str(file))
    assert (code != 0, "node.toml exists; choose another name" in said) == (True, True)
    assert "was formatted before; nothing was changed" in done("node", "format", str(file))
    code, said = dledger("node", "init", str(tmp_path / "b.toml"), *SMALL_FLAGS)
    assert code != 0, "another node's folder is not taken"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n0-data", "node.toml"]
    assert file.read_text() == before


def test_a_file_for_another_machine_is_only_written(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    secret = tmp_path / "secret"
    secret.write_text("a-secret-of-the-cluster\n")
    options = ["--secret-file", str(secret), "--no-format", "--folder", "/srv/dledger"]
    options += ["--member", "n0=[::1]:1:2", "--listen", "::", "--broker", "b", "--admin", ""]
    done("node", "init", str(file), *options)
    made = build_node(read_node(file, {}))
    assert made.raft.peers["n0"] == ("::1", 2)
    assert made.raft.listen == ("::", 2)
    assert (made.broker.listen_host, made.broker.advertised) == ("::", "[::1]:1")
    assert (made.raft.group, made.broker.broker_name) == ("b", "b")
    assert made.raft.secret == made.broker.cluster_secret == "a-secret-of-the-cluster"
    assert made.admin.listen is None
    assert made.broker.root == Path("/srv/dledger")
    assert not (tmp_path / "n0-data").exists()


def test_a_name_with_quotes_is_a_name(tmp_path: Path) -> None:
    odd = 'a "b" \\ c\nd\x7f'
    done("node", "init", str(tmp_path / "a.toml"), "--set", f"broker.region={odd}", "--no-format")
    assert tomllib.loads((tmp_path / "a.toml").read_text())["broker"]["region"] == odd


def test_a_node_that_cannot_start_says_why(tmp_path: Path, free_address: str) -> None:
    with by_hand(tmp_path) as nodes:
        file = nodes.file("n0")
        member = ["--member", f"n0={free_address}", "--admin", f"{free_address}:8080"]
        done("node", "init", str(file), *member, "--no-format", *SMALL_FLAGS)
        nodes.run("n0")
        assert "was never formatted for a node" in nodes.fails("n0")
        done("node", "format", str(file))
        for port in (10911, 20911, 8080):
            with socket.create_server((free_address, port)):
                nodes.run("n0")
                last = nodes.fails("n0").strip().splitlines()[-1]
                assert f"{free_address}:{port}" in last, last
                assert "Traceback" not in nodes.log("n0")
        code, said = dledger("node", "run", str(tmp_path / "nothing.toml"))
        assert (code, "does not exist" in said) == (2, True)
        file.write_text(file.read_text().replace("listen_port", "lisen_port"))
        code, said = dledger("node", "run", str(file))
        assert code != 0
        assert "did you mean broker.listen_port" in said
    assert os.environ.get("NOTIFY_SOCKET") is None
