"""Accounts and TLS on three real nodes: whoever a client is connected to, the same rules hold."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cluster.core.access.signature import sign
from cluster.local import plan
from cluster.local.launcher import LocalCluster
from cluster.local.profile import BROKER
from cluster.protocol.frames import Frame, FrameDecoder, encode_frame
from tests.waiting import RAFT_TIMINGS, wait_until

PEM = Path(__file__).parents[1] / "data" / "tls"
SMALL = RAFT_TIMINGS | {
    "raft.data_file_size": str(16 << 20),
    "raft.index_file_size": str(1 << 20),
}
ACCOUNTS = """
accounts:
- accessKey: orders
  secretKey: orders-secret
  topicPerms:
  - orders=PUB|SUB
- accessKey: master
  secretKey: master-secret
  admin: true
"""
SEND = {
    "a": "PG",
    "b": "orders",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "",
    "j": "0",
    "k": "false",
    "m": "false",
}


@pytest.fixture(scope="module", params=["permissive", "enforcing"])
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LocalCluster, Path]]:
    folder = tmp_path_factory.mktemp("access")
    file = folder / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    settings = SMALL | {
        "broker.acl_file": str(file),
        "broker.cluster_secret": "one for all",
        "broker.tls_mode": request.param,
        "broker.tls_certificate": str(PEM / "server.pem"),
        "broker.tls_key": str(PEM / "server.key"),
    }
    members = plan.plan(3, plan.scratch_hosts(3))
    cluster = LocalCluster.create(folder / "c", members, settings, tied=True)
    cluster.up()
    try:
        yield cluster, file
    finally:
        cluster.down()


@contextlib.contextmanager
def _dial(address: str, *, tls: bool) -> Iterator[Callable[[Frame], Frame]]:
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as open_things:
        plain = open_things.enter_context(socket.create_connection((host, int(port)), 10))
        line: socket.socket = plain
        if tls:
            context = ssl.create_default_context(cafile=str(PEM / "server.pem"))
            context.check_hostname = False
            line = open_things.enter_context(context.wrap_socket(plain))
        decoder = FrameDecoder()

        def ask(frame: Frame) -> Frame:
            line.sendall(encode_frame(frame))
            while True:
                data = line.recv(65536)
                if not data:
                    raise ConnectionError("closed without an answer")
                for found in decoder.feed(data):
                    if found.is_response:
                        return found

        yield ask


def _signed(code: int, ext: Mapping[str, str], body: bytes, key: str, secret: str) -> Frame:
    fields = {**ext, "AccessKey": key}
    fields["Signature"] = sign(fields, body, secret, 453)
    return Frame(code, 7, fields, body, version=453)


def _addresses(cluster: LocalCluster) -> list[str]:
    return [member.client for member in cluster.profile.of_kind(BROKER)]


def test_every_node_asks_for_the_account(guarded: tuple[LocalCluster, Path]) -> None:
    cluster, _ = guarded
    for address in _addresses(cluster):  # the leader and both followers, which pass it on
        with _dial(address, tls=True) as ask:
            good = ask(_signed(310, SEND, b"body", "orders", "orders-secret"))
            assert good.code == 0, good.remark
            assert int(good.ext["queueOffset"]) >= 0
            unsigned = ask(Frame(310, 1, SEND, b"body", version=453))
            assert (unsigned.code, "wants an account" in (unsigned.remark or "")) == (16, True)
            wrong = ask(_signed(310, SEND, b"body", "orders", "wrong-secret"))
            assert (wrong.code, "signature" in (wrong.remark or "")) == (16, True)
            stranger = ask(_signed(310, SEND, b"body", "nobody", "orders-secret"))
            assert stranger.code == 16
            other = ask(_signed(310, {**SEND, "b": "other"}, b"body", "orders", "orders-secret"))
            assert (other.code, "no PUB of topic other" in (other.remark or "")) == (16, True)
            admin = {"topic": "made", "defaultTopic": "TBW102", "readQueueNums": "1"}
            admin |= {"writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG"}
            admin |= {"topicSysFlag": "0", "order": "false"}
            assert ask(_signed(17, admin, b"", "orders", "orders-secret")).code == 16
            assert ask(_signed(17, admin, b"", "master", "master-secret")).code == 0
            good = ask(_signed(310, SEND, b"again", "orders", "orders-secret"))
            assert good.code == 0, "a refusal takes nothing down"


def test_plain_frames_only_where_they_may_be(guarded: tuple[LocalCluster, Path]) -> None:
    cluster, _ = guarded
    enforced = cluster.profile.settings["broker.tls_mode"] == "enforcing"
    frame = _signed(310, SEND, b"plain", "orders", "orders-secret")
    for address in _addresses(cluster):
        with _dial(address, tls=False) as ask:
            if enforced:
                with pytest.raises(ConnectionError):
                    ask(frame)
            else:
                assert ask(frame).code == 0
    for tls in (True, False):  # name servers take both
        with _dial(cluster.profile.nameservers[0], tls=tls) as ask:
            assert ask(Frame(106, 3, {}, b"", version=453)).code == 0


def test_a_forged_peer_is_closed(guarded: tuple[LocalCluster, Path]) -> None:
    cluster, _ = guarded
    for ext in ({}, {"node": "n1", "client": "1.2.3.4:5", "stamp": "1", "proof": "00"}):
        with (
            _dial(_addresses(cluster)[0], tls=True) as ask,
            pytest.raises((ConnectionError, TimeoutError)),
        ):
            ask(Frame(31002, 1, ext, b"", version=453))


def test_a_changed_file_counts_without_a_restart(guarded: tuple[LocalCluster, Path]) -> None:
    cluster, file = guarded
    file.write_text(ACCOUNTS.replace("orders-secret", "another-secret"))
    frame = _signed(310, SEND, b"body", "orders", "another-secret")
    for address in _addresses(cluster):

        def knows(address: str = address) -> bool:
            with _dial(address, tls=True) as ask:
                return ask(frame).code == 0

        wait_until(knows, f"the new secret at {address}")
