"""Certificates that `dledger tls` makes: who believes them, and what renewing keeps."""

from __future__ import annotations

import datetime
import ssl
import stat
from pathlib import Path

import pytest

from cluster.security.certificates import (
    CertificateError,
    Subject,
    all_of,
    make_all,
    node_settings,
    renew,
)
from dledger.runtime.peer_tls import PeerTls, named_nodes

NODES = [Subject("n0", ("127.0.0.1", "broker.example", "[::1]")), Subject("n1", ("10.0.0.2",))]
CLIENT = Subject("client-app", is_client=True)
LONG_AGO = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
FAR_OFF = datetime.datetime(9000, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_all(tmp_path / "tls", [*NODES, CLIENT])
    return tmp_path / "tls"


def shaken(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after a handshake in memory. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname=host),
    )
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    ends[1].write(b"hello")
    assert ends[0].read() == b"hello"
    return ends


def peer(folder: Path, name: str, *, dials: bool) -> ssl.SSLContext:
    files = [str(folder / f"{name}.{kind}") for kind in ("pem", "key")]
    return PeerTls("enforcing", *files, str(folder / "authority.pem")).context(dials=dials)  # type: ignore[arg-type]


def serving(folder: Path, name: str, callers: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    if callers is not None:
        context.load_verify_locations(folder / callers)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def calling(folder: Path, shown: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "authority.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    if shown is not None:
        context.load_cert_chain(folder / f"{shown}.pem", folder / f"{shown}.key")
    return context


def test_nodes_believe_each_other_and_know_whose_a_certificate_is(folder: Path) -> None:
    one, two = shaken(peer(folder, "n0", dials=False), peer(folder, "n1", dials=True))
    assert named_nodes(one.getpeercert()) == {"n1"}
    assert named_nodes(two.getpeercert()) == {"n0"}


def test_a_clients_certificate_is_no_peers(folder: Path) -> None:
    with pytest.raises(ssl.SSLError):
        shaken(peer(folder, "n0", dials=False), peer(folder, "client-app", dials=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "broker.example", "::1"])
def test_a_client_checks_the_host_that_it_dials(folder: Path, host: str) -> None:
    shaken(serving(folder, "n0"), calling(folder), host)
    with pytest.raises(ssl.SSLError, match="mismatch"):
        shaken(serving(folder, "n1"), calling(folder), host)


@pytest.mark.parametrize("shown", ["client-app", "n1"])
def test_brokers_that_want_certificates_take_clients_and_nodes(folder: Path, shown: str) -> None:
    shaken(serving(folder, "n0", "callers.pem"), calling(folder, shown), "127.0.0.1")
    with pytest.raises(ssl.SSLError):
        shaken(serving(folder, "n0", "callers.pem"), calling(folder), "127.0.0.1")


def test_keys_are_their_owners_alone(folder: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.key")}
    assert modes == dict.fromkeys(
        ("authority.key", "clients.key", "n0.key", "n1.key", "client-app.key"), 0o600
    )


def test_renewing_keeps_names_and_changes_keys(folder: Path) -> None:
    before = {one.file: one for one in all_of(folder)}
    keys = {path: path.read_bytes() for path in folder.glob("*.key")}
    old = tuple(peer(folder, "n0", dials=side) for side in (False, True))
    assert renew(folder, LONG_AGO) == []
    made = {path.name for path in renew(folder, before["n0.pem"].ends + datetime.timedelta(1))}
    assert made == {"n0.pem", "n1.pem", "client-app.pem"}, "authorities are good for longer"
    for one in all_of(folder):
        assert (one.names, one.signed_by) == (before[one.file].names, before[one.file].signed_by)
    same = {path.name for path, key in keys.items() if path.read_bytes() == key}
    assert same == {"authority.key", "clients.key"}
    new = tuple(peer(folder, "n1", dials=side) for side in (False, True))
    shaken(old[0], new[1])
    shaken(new[0], old[1])


def test_a_renewed_authority_is_believed_with_what_the_old_one_signed(folder: Path) -> None:
    """Machines get their new files one after the other."""
    old = tuple(peer(folder, "n0", dials=side) for side in (False, True))
    made = {path.name for path in renew(folder, FAR_OFF)}
    assert made == {"authority.pem", "clients.pem", "n0.pem", "n1.pem", "client-app.pem"}
    new = tuple(peer(folder, "n1", dials=side) for side in (False, True))
    shaken(old[0], new[1])
    shaken(new[0], old[1])
    shaken(serving(folder, "n0", "callers.pem"), calling(folder, "client-app"), "127.0.0.1")


def test_renewing_leaves_alone_what_others_have_signed(folder: Path, tmp_path: Path) -> None:
    make_all(tmp_path / "foreign", [Subject("letsencrypt", ("10.0.0.9",))])
    copied = {}
    for kind in ("pem", "key"):
        path = folder / f"letsencrypt.{kind}"
        copied[path] = (tmp_path / "foreign" / path.name).read_bytes()
        path.write_bytes(copied[path])
    assert folder / "letsencrypt.pem" not in renew(folder, FAR_OFF)
    assert {path: path.read_bytes() for path in copied} == copied


def test_a_lost_certificate_of_the_authority_is_made_of_its_key(folder: Path) -> None:
    key = (folder / "authority.key").read_bytes()
    old = peer(folder, "n0", dials=False)
    (folder / "authority.pem").unlink()
    make_all(folder, [Subject("n2", ("10.0.0.3",))])
    assert (folder / "authority.key").read_bytes() == key
    shaken(old, peer(folder, "n2", dials=True))


def test_more_names_are_added_to_the_same_authority(folder: Path) -> None:
    before = (folder / "authority.pem").read_bytes()
    assert [path.name for path in make_all(folder, [Subject("n2", ("10.0.0.3",))])] == ["n2.pem"]
    assert (folder / "authority.pem").read_bytes() == before
    shaken(peer(folder, "n0", dials=False), peer(folder, "n2", dials=True))


def test_what_cannot_be_done_says_why(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match=r"n1\.pem exists already; dledger tls renew"):
        make_all(folder, [Subject("n5", ("10.0.0.5",)), NODES[1]])
    assert not (folder / "n5.pem").exists()
    with pytest.raises(CertificateError, match="no certificate of n7; make it: dledger tls init"):
        node_settings(folder, "n7")
    with pytest.raises(CertificateError, match="holds no certificates"):
        all_of(tmp_path)
    (folder / "authority.key").unlink()
    with pytest.raises(CertificateError, match="use the folder that has the authority's key"):
        make_all(folder, [Subject("n5", ("10.0.0.5",))])
    (folder / "n0.pem").write_text("nothing")
    with pytest.raises(CertificateError, match=r"n0\.pem cannot be read as a certificate"):
        all_of(folder)
