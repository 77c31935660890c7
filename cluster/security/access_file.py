"""The accounts file of a running broker or name server: read at start, read again when it changes.

    plain_acl.yml ─► AccessFile.accounts ─► core.access.rules: who sent a request, and may they

A file that cannot be understood at start stops the node. Later the former accounts stay in force
and the mistake is logged once: nobody is locked out, or let in, by half a file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from cluster.core.access.accounts import Accounts, AccountsError, read_accounts
from cluster.core.access.needs import Needs
from cluster.core.access.rules import Caller, Denied, caller_of, claimed
from cluster.core.access.signature import ACCESS_KEY, SIGNATURE
from cluster.core.access.single_use import SealNotOfNow, SignatureWindow, UsedBefore, WindowFull
from cluster.errors import ClusterError, SealStale, ServiceNotAvailable, Unauthorized
from cluster.protocol.frames import Frame
from dledger.membership.proof import secret_error
from dledger.runtime.watched_files import stamp_of

FILE_BYTES_MAX = 1 << 20  # some ten thousand accounts
WATCH_SECONDS = 1.0

_log = logging.getLogger(__name__)


class AccessFile:
    """Accounts of `path`. Raises AccountsError when it cannot be understood, OSError."""

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        not_before: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Read the file. `now` times remembered signatures, `now_ms` the stamps of seals.

        `not_before` has the log take no store time below the one that it is called with, in ms.
        """
        self._not_before = not_before
        self._path = path
        #: Requests refused for who or when they say: an account, a signature, a seal.
        self.refused = 0
        self._window = SignatureWindow(now, now_ms)
        self._seen = stamp_of(self._path)
        self.accounts: Accounts = self._read()

    def caller(self, address: str, frame: Frame, *, passed_on: bool = False) -> Caller:
        """The account that signed the request. `address`: the client's host:port.

        `passed_on`: the leader judges whether another client sent it before. Raises Unauthorized,
        SealStale, or ServiceNotAvailable when no signature can be remembered now.
        """
        host = _host(address)
        try:
            caller = caller_of(
                self.accounts, host, frame.code, frame.ext, frame.body, frame.version
            )
        except Denied as error:
            raise self._refusal(error) from None
        self._admit(caller, None if passed_on else host, frame)
        return caller

    def caller_at_leader(self, address: str, frame: Frame, peer: str) -> Caller:
        """The account that signed a request which a peer passes on.

        The peer checked the signature. Raises as `caller` does, also if the request came by way of
        another peer before."""
        caller = self.caller_before(address, frame)
        self._admit(caller, _host(address), frame, peer)
        return caller

    def judge_age(self, frame: Frame, since: float = float("-inf")) -> int | None:
        """A change was sealed since this node leads, in seconds of `now`. Raises SealStale.

        What the log takes from here on is not stamped before the seal, so that the next leader, or
        this node after a restart, knows up to where seals were used (R18). Returns the stamp; None
        for what is not sealed, or changes nothing.
        """
        try:
            stamp_ms = self._window.judge_age(frame.code, frame.ext, since)
        except SealNotOfNow as error:
            raise self._refusal(error) from None
        if stamp_ms is not None:
            self._not_before(stamp_ms)
        return stamp_ms

    def spend_until(self, stamp_ms: int) -> None:
        """Seals with stamps up to this one may have been used at the leaders before."""
        self._window.spend_until(stamp_ms)

    def caller_before(self, address: str, frame: Frame) -> Caller:
        """The account that signed a request; it was checked where it entered, here or at a peer."""
        return claimed(self.accounts, _host(address), frame.ext.get(ACCESS_KEY, ""))

    def caller_with(self, address: str, key: str) -> Caller:
        """The account that a client registered with, as it is now."""
        return claimed(self.accounts, _host(address), key)

    def _admit(
        self, caller: Caller, host: str | None, frame: Frame, peer: str | None = None
    ) -> None:
        if caller.account is None or SIGNATURE not in frame.ext:
            return  # an address that needs none
        try:
            self._window.admit(frame.code, frame.ext, len(frame.body), host, peer)
        except (UsedBefore, SealNotOfNow, WindowFull) as error:
            raise self._refusal(error) from None

    def _refusal(self, error: Denied | UsedBefore | SealNotOfNow | WindowFull) -> ClusterError:
        self.refused += 1
        if isinstance(error, SealNotOfNow):
            return SealStale(str(error), error.stamp_ms)
        if isinstance(error, WindowFull):
            return ServiceNotAvailable(str(error))
        return Unauthorized(str(error))

    def look_again(self) -> bool:
        """Read the file if it changed; True when other accounts are in force now."""
        try:
            stamp = stamp_of(self._path)
            if stamp == self._seen:
                return False
            self._seen = stamp
            self.accounts = self._read()
        except (OSError, AccountsError) as error:
            _log.error("%s: %s; the accounts read before stay in force", self._path, error)
            return False
        _log.info("%s: %d accounts are in force", self._path, len(self.accounts.by_key))
        return True

    def _read(self) -> Accounts:
        with self._path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise AccountsError(f"it has more than {FILE_BYTES_MAX} bytes; split it into groups")
        try:
            document = yaml.safe_load(data)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise AccountsError(f"it is no YAML: {' '.join(str(error).split())}") from None
        accounts = read_accounts(document)
        for account in accounts.by_key.values():
            if wrong := secret_error(account.secret_key):
                raise AccountsError(f"account {account.access_key!r}: secretKey {wrong}")
        return accounts


def access_of(
    path: str | None,
    *,
    now: Callable[[], float],
    now_ms: Callable[[], int],
    not_before: Callable[[int], None],
) -> AccessFile | None:
    """The accounts of a setting; None where it names no file. Raises as `AccessFile` does."""
    if not path:
        return None
    return AccessFile(Path(path), now=now, now_ms=now_ms, not_before=not_before)


def require(caller: Caller, needs: Needs) -> None:
    """Raises Unauthorized, which names the missing right."""
    try:
        caller.require(needs)
    except Denied as error:
        raise Unauthorized(str(error)) from None


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
