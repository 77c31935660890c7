"""Certificates of a cluster: its own authorities, a certificate for each node and for clients.

    authority.pem, .key     signs nodes; clients believe it (--tls authority.pem)
    clients.pem, .key       signs clients: an authority of its own, since every certificate that
                            authority.pem has signed may be shown as a peer's (dledger/runtime/
                            peer_tls.py)
    callers.pem             both authorities: of whom brokers take a certificate on the client port
    NODE.pem, NODE.key      a node's chain and its key, for peers and for clients
    client-NAME.pem, .key   a client's

All of them are P-256. Keys are readable by their owner only. A certificate that is made anew keeps
its names and gets another key; an authority that is made anew keeps its key, so what it signed
before stays good.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cluster.home import write_private
from commitlog.address import without_brackets
from commitlog.advice import Advised

AUTHORITY, CLIENTS, CALLERS = "authority", "clients", "callers"
CLIENT_PREFIX = "client-"
NODE_URI = "dledger-node:"
AUTHORITY_DAYS, LEAF_DAYS = 3650, 397
"""Days that an authority and what it signs are good for."""
BACKDATED = datetime.timedelta(hours=1)
"""For machines whose clocks are behind."""

Key = ec.EllipticCurvePrivateKey


class CertificateError(Advised):
    """A folder of certificates cannot be made or used."""

    advice = "give the folder that dledger tls init made"
    retriable = False


@dataclass(frozen=True, slots=True)
class Subject:
    """The node or client that a certificate names.

    Attributes:
        name: of the file, and the certificate's common name.
        hosts: names and addresses by which clients reach a node; none for a client.
        is_client: signed by the clients' authority.
    """

    name: str
    hosts: tuple[str, ...] = ()
    is_client: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A certificate in a folder. `ends` is the first moment at which it is not good any more."""

    file: str
    names: tuple[str, ...]
    ends: datetime.datetime
    signed_by: str


def make_all(folder: Path, subjects: Iterable[Subject], days: int = LEAF_DAYS) -> list[Path]:
    """Make the authorities where they are missing, and the subjects' certificates.

    Returns the certificates that were written. Raises CertificateError when one of the subjects
    has a certificate already, before anything is written.
    """
    subjects = list(subjects)
    for subject in subjects:
        if _certificate(folder, subject.name).exists():
            raise CertificateError(
                f"{_certificate(folder, subject.name)} exists already; dledger tls renew makes it "
                "anew"
            )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = list(_missing_authorities(folder, clients=any(one.is_client for one in subjects)))
    made += [_sign(folder, subject, days) for subject in subjects]
    _write_callers(folder)
    return made


def renew(folder: Path, before: datetime.datetime, days: int = LEAF_DAYS) -> list[Path]:
    """Make every certificate anew that ends before a moment. Raises CertificateError."""
    made = []
    leaves = list(_renewable(folder))
    for path in _authorities(folder):
        if _ends(_read(path)) < before:
            _write_certificate(path, _self_signed(path.stem, _read_key(folder, path.stem)))
            made.append(path)
    anew = set(made)
    for path, subject in leaves:
        signer = _certificate(folder, CLIENTS if subject.is_client else AUTHORITY)
        if signer in anew or _ends(_read(path)) < before:
            made.append(_sign(folder, subject, days))
    if made:
        _write_callers(folder)
    return made


def _renewable(folder: Path) -> Iterator[tuple[Path, Subject]]:
    """Certificates that authorities of the folder signed; its other files are left alone."""
    for authority in _authorities(folder):
        signer = _read(authority)
        for path in sorted(_leaves(folder)):
            certificate = _read(path)
            try:
                certificate.verify_directly_issued_by(signer)
            except (ValueError, TypeError, InvalidSignature):
                continue
            hosts = (one for one in _host_names(certificate) if not one.startswith(NODE_URI))
            yield path, Subject(path.stem, tuple(hosts), is_client=authority.stem == CLIENTS)


def all_of(folder: Path) -> list[Found]:
    """Every certificate of a folder, the one that ends first before the others.

    Raises CertificateError when the folder has none, or one that cannot be read.
    """
    paths = [*_authorities(folder), *sorted(_leaves(folder))]
    if not paths:
        raise CertificateError(f"{folder} holds no certificates; make some with dledger tls init")
    found = []
    for path in paths:
        certificate = _read(path)
        names = _host_names(certificate)
        found.append(Found(path.name, names, _ends(certificate), _common_name(certificate.issuer)))
    return sorted(found, key=lambda one: (one.ends, one.file))


def node_settings(folder: Path, node: str) -> dict[str, str]:
    """Settings of a node with a certificate of the folder: TLS to peers is enforced, clients may
    use it or not. Raises CertificateError when the node has none."""
    pem = _certificate(folder, node)
    if not pem.exists():
        raise CertificateError(
            f"{folder} has no certificate of {node}; make it: dledger tls init {folder} --node "
            f"{node}=HOST"
        )
    for path in (_key_file(folder, node), _certificate(folder, AUTHORITY)):
        if not path.exists():
            raise CertificateError(
                f"{folder} has {pem.name} and not {path.name}; copy it there from the folder of "
                "dledger tls init"
            )
    key = str(_key_file(folder, node).resolve())
    return {
        "raft.tls_mode": "enforcing",
        "raft.tls_certificate": str(pem.resolve()),
        "raft.tls_key": key,
        "raft.tls_authority": str(_certificate(folder, AUTHORITY).resolve()),
        "broker.tls_mode": "permissive",
        "broker.tls_certificate": str(pem.resolve()),
        "broker.tls_key": key,
    }


def _certificate(folder: Path, name: str) -> Path:
    return folder / f"{name}.pem"


def _key_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.key"


def _authorities(folder: Path) -> list[Path]:
    """Certificates of those that the folder has."""
    paths = (_certificate(folder, name) for name in (AUTHORITY, CLIENTS))
    return [path for path in paths if path.exists()]


def _leaves(folder: Path) -> Iterator[Path]:
    apart = {AUTHORITY, CLIENTS, CALLERS}
    return (path for path in folder.glob("*.pem") if path.stem not in apart)


def _missing_authorities(folder: Path, *, clients: bool) -> Iterator[Path]:
    for name in (AUTHORITY, CLIENTS) if clients else (AUTHORITY,):
        path = _certificate(folder, name)
        if not path.exists():
            if _key_file(folder, name).exists():  # what it has signed stays good
                key = _read_key(folder, name)
            else:
                key = ec.generate_private_key(ec.SECP256R1())
                _write_key(_key_file(folder, name), key)
            _write_certificate(path, _self_signed(name, key))
            yield path


def _self_signed(name: str, key: Key) -> list[x509.Certificate]:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"dledger {name}")])
    builder = _begun(subject, subject, key.public_key(), AUTHORITY_DAYS, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    return [builder.sign(key, hashes.SHA256())]


def _sign(folder: Path, subject: Subject, days: int) -> Path:
    """Write the subject's key and chain."""
    authority = CLIENTS if subject.is_client else AUTHORITY
    signer, signers_key = _read(_certificate(folder, authority)), _read_key(folder, authority)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject.name)])
    builder = _begun(name, signer.subject, key.public_key(), days, signers_key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if not subject.is_client:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        uri = x509.UniformResourceIdentifier(NODE_URI + subject.name)
        names = x509.SubjectAlternativeName([uri, *map(_host_name, subject.hosts)])
        builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    certificate = builder.sign(signers_key, hashes.SHA256())
    _write_key(_key_file(folder, subject.name), key)
    path = _certificate(folder, subject.name)
    _write_certificate(path, [certificate, signer])
    return path


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    days: int,
    issuers_key: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuers_key), False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(without_brackets(host)))
    except ValueError:
        return x509.DNSName(host)


def _host_names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in found)


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _ends(certificate: x509.Certificate) -> datetime.datetime:
    return certificate.not_valid_after_utc


def _read(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0]
    except (OSError, ValueError) as error:
        raise CertificateError(f"{path} cannot be read as a certificate ({error})") from error


def _read_key(folder: Path, name: str) -> Key:
    path = _key_file(folder, name)
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise CertificateError(
            f"{path} cannot be read as a key ({error}); use the folder that has the authority's key"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{path} is no key of an elliptic curve, as dledger tls init makes")
    return key


def _write_key(path: Path, key: Key) -> None:
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_private(path, text.decode())


def _write_certificate(path: Path, chain: Sequence[x509.Certificate]) -> None:
    aside = path.with_name(path.name + ".tmp")
    pem = serialization.Encoding.PEM
    aside.write_bytes(b"".join(one.public_bytes(pem) for one in chain))
    aside.replace(path)


def _write_callers(folder: Path) -> None:
    chain = [_read(path) for path in _authorities(folder)]
    _write_certificate(_certificate(folder, CALLERS), chain)
