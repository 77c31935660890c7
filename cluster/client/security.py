"""Who a client is, and whom it believes: an account and TLS.

Source: docs/spec/remoting.md 4.10, docs/spec/remoting.md 1.5.

    account file, as RocketMQ's tools.yml:      accessKey: orders
                                                secretKey: 12345678

Secrets are never shown by `repr`, so that they reach no log.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cluster.client.errors import ClientConfigError

ACCOUNT_FILE_SIZE_MAX = 64 * 1024  # two lines are wanted


@dataclass(frozen=True, slots=True)
class Account:
    """Signs every request.

    Attributes:
        access_key: the account's name, as the broker's plain_acl.yml has it.
        secret_key: what it signs with; never sent.
    """

    access_key: str
    secret_key: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            raise ClientConfigError("access_key or secret_key of the account is empty; give both")


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS to brokers and name servers.

    Attributes:
        authority: PEM file of the certificates that are believed (a self-signed one is its own
            authority); "" believes what the system believes.
        check_host: the certificate must name the address that is dialled. Without it anybody whom
            the authority knows may answer; needed where brokers advertise addresses that their
            certificates do not have.
        certificate, key: what this client shows to brokers that want to see one; PEM files.
    """

    authority: str = ""
    check_host: bool = True
    certificate: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise ClientConfigError("certificate and key of TLS belong together; give both or none")

    def context(self) -> ssl.SSLContext:
        """Raises ClientConfigError, which names the file that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.authority or None)
        except (OSError, ssl.SSLError) as error:
            raise ClientConfigError(
                f"the authority {self.authority} cannot be read ({error}); give a PEM file"
            ) from error
        context.check_hostname = self.check_host
        if self.certificate:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except (OSError, ssl.SSLError) as error:
                raise ClientConfigError(
                    f"certificate {self.certificate} and key {self.key} cannot be used ({error}); "
                    "give a PEM chain and its unencrypted key"
                ) from error
        return context


def read_account(path: Path) -> Account:
    """The account of a file like RocketMQ's tools.yml: lines `accessKey: …` and `secretKey: …`.

    Raises ClientConfigError when it cannot be read or lacks one.
    """
    try:
        with path.open("rb") as file:
            text = file.read(ACCOUNT_FILE_SIZE_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ClientConfigError(
            f"the account file {path} cannot be read ({error}); give one with the lines "
            "accessKey: … and secretKey: …"
        ) from error
    found = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            found[name.strip()] = value.strip().strip("\"'")
    try:
        return Account(found["accessKey"], found["secretKey"])
    except KeyError as error:
        raise ClientConfigError(
            f"{path} has no {error.args[0]}; write the lines accessKey: … and secretKey: …"
        ) from None
