"""A name server has no access control, so it does not listen beyond this machine by accident."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.nameserver.listen import NameServerConfigError, parse_listen
from cluster.nameserver.replicated_kv import (
    PasswordMissing,
    ReplicatedKvConfig,
    ReplicationConfig,
)
from cluster.nameserver.server import NameServer
from tests.waiting import limit

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "2001:db8::1", "example.org"])
def test_beyond_this_machine_is_refused(host: str) -> None:
    with pytest.raises(NameServerConfigError, match="--open-to-network"):
        NameServer(host, 0)
    NameServer(host, 0, open_to_network=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "::1", "localhost"])
def test_this_machine_is_not(host: str) -> None:
    NameServer(host, 0)


async def test_it_listens_where_it_was_allowed_to() -> None:
    async with NameServer("0.0.0.0", 0, open_to_network=True) as server:
        assert server.address.startswith("0.0.0.0:")


def test_addresses() -> None:
    assert parse_listen("127.0.0.1:9876") == ("127.0.0.1", 9876)
    assert parse_listen("[::1]:0") == ("::1", 0)
    for text in ("abc", ":9876", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", "h:٣"):
        with pytest.raises(NameServerConfigError, match="write host:port"):
            parse_listen(text)


@pytest.mark.parametrize(
    ("listen", "said"), [("0.0.0.0:9876", "beyond this machine"), ("abc", "is no address")]
)
def test_the_process_says_so(listen: str, said: str) -> None:
    command = [sys.executable, "-m", "cluster.local.nameserver_main", "--listen", listen]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=limit(60), cwd=ROOT)
    assert ended.returncode == 2
    assert said in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("text", ["change me please", "short", "12345678"])
def test_a_secret_that_is_none_makes_no_name_server(text: str, tmp_path: Path) -> None:
    with pytest.raises(NameServerConfigError, match=r"the cluster secret (is|has) ") as found:
        NameServer("127.0.0.1", 0, cluster_secret=text)
    assert text not in str(found.value)
    shared = ReplicationConfig("127.0.0.1:0", [], tmp_path / "kv", text)
    with pytest.raises(PasswordMissing, match=r"--kv-password-file (is|has) ") as missing:
        ReplicatedKvConfig(shared)
    assert text not in str(missing.value)
    assert not shared.folder.exists()
