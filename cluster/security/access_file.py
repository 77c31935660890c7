"""Accounts of a running broker or name server: those of its file and of its log.

    plain_acl.yml ─┐
                   ├► Access.accounts ─► core.access.rules: who sent a request, and may they
    the log ───────┘

An account of the file comes before the log's with the same access key: the file is of this node
alone, for its beginning and for emergencies. Access control is on where there is a file, or the log
has an account. Accounts of the log count from the entry on that says them, for the requests of
every connection; a name server has no log, and its file only.

The file is read at start, and again when it changes. One that cannot be understood at start stops
the node. Later the former accounts stay in force and the mistake is logged once: nobody is locked
out, or let in, by half a file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from cluster.core.access.account_table import AccountTable
from cluster.core.access.accounts import (
    PREVIOUS_SECRET,
    Account,
    Accounts,
    AccountsError,
    accounts_of,
    read_accounts,
)
from cluster.core.access.needs import Needs
from cluster.core.access.quota import Connection, QuotaExceeded, Quotas
from cluster.core.access.rules import UNASKED, Caller, Denied, caller_of, claimed
from cluster.core.access.signature import SIGNATURE
from cluster.core.access.single_use import SealNotOfNow, SignatureWindow, UsedBefore, WindowFull
from cluster.errors import ClusterError, QueueFull, SealStale, ServiceNotAvailable, Unauthorized
from cluster.protocol.frames import Frame
from cluster.protocol.send import message_count
from commitlog.address import host_of
from dledger.membership.proof import secret_error
from dledger.runtime.watched_files import stamp_of

FILE_BYTES_MAX = 1 << 20  # some ten thousand accounts
WATCH_SECONDS = 1.0
NO_ACCOUNTS = Accounts({})

_log = logging.getLogger(__name__)


class Access:
    """Accounts of `path` and of `logged`, either of which may be absent.

    Raises AccountsError when the file cannot be understood, OSError.
    """

    def __init__(
        self,
        path: Path | str | None,
        logged: AccountTable | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        not_before: Callable[[int], None] = lambda _: None,
        peers_prove: bool = True,
    ) -> None:
        """Read the file. `now` times remembered signatures, `now_ms` the stamps of seals.

        `not_before` has the log take no store time below the one that it is called with, in ms.
        `peers_prove`: a peer that passes requests on has proved the cluster secret.
        """
        self._not_before, self._peers_prove = not_before, peers_prove
        self._path = Path(path) if path else None
        self._logged = AccountTable() if logged is None else logged
        #: Requests refused for who or when they say: an account, a signature, a seal.
        self.refused = 0
        #: Grows when other accounts, or other rights, come into force: what was judged before is
        #: to be judged again.
        self.changes = 0
        self._window = SignatureWindow(now, now_ms)
        self.quotas = Quotas(now)
        self._seen = () if self._path is None else stamp_of(self._path)
        self._of_file = NO_ACCOUNTS if self._path is None else self._read(self._path)
        self._merge()
        #: Does a request need an account? Asked for each request, so it is no property.
        self.is_on = False
        self._watchers: list[Callable[[], None]] = []
        self._turned()
        self._logged.watch(self._turned)

    def on_change(self, changed: Callable[[], None]) -> None:
        """Have `changed` called when other accounts, or other rights, are in force."""
        self._watchers.append(changed)

    def _turned(self) -> None:
        self.is_on = self._path is not None or len(self._logged) > 0
        self.changes += 1
        by_key = self.accounts.by_key
        self.quotas.keep(lambda key: key in by_key and by_key[key].quota is not None)
        for changed in self._watchers:
            changed()

    @property
    def accounts(self) -> Accounts:
        """As they are now; those of the file come first."""
        if self._merged_of is not self._logged.accounts:
            self._merge()
        return self._merged

    def _merge(self) -> None:
        self._merged_of = self._logged.accounts
        self._merged = accounts_of({**self._merged_of, **self._of_file.by_key}, self._of_file.white)

    def caller(self, address: str, frame: Frame, *, passed_on: bool = False) -> Caller:
        """The account that signed the request. `address`: the client's host:port.

        `passed_on`: the leader judges whether another client sent it before. Raises Unauthorized,
        SealStale, or ServiceNotAvailable when no signature can be remembered now.
        """
        if not self.is_on:
            return UNASKED
        caller = self._signed(address, frame)
        self._admit(caller, None if passed_on else host_of(address), frame)
        return caller

    def _signed(self, address: str, frame: Frame) -> Caller:
        """The account with that signature. Raises Unauthorized."""
        host = host_of(address)
        try:
            return caller_of(self.accounts, host, frame.code, frame.ext, frame.body, frame.version)
        except Denied as error:
            raise self._refusal(error) from None

    def caller_at_leader(self, address: str, frame: Frame, peer: str) -> Caller:
        """The account that signed a request which a peer passes on, by the accounts of this node.

        What the peer believed says nothing: it may lag, or have a file of its own (R29). Raises as
        `caller` does, also if the request came by way of another peer before, and for a peer that
        proves nothing: everybody can say to be one, and name the address of another. Raises
        ServiceNotAvailable for what is not signed: the peer may not have heard of accounts yet.
        """
        if not self.is_on:
            return UNASKED
        if not self._peers_prove:
            raise Unauthorized(
                f"{peer} passes requests on and proves nothing, and there are accounts; set "
                "broker.cluster_secret, the same on every node"
            )
        try:
            caller = self._signed(address, frame)
        except Unauthorized:
            if SIGNATURE in frame.ext:
                raise
            raise ServiceNotAvailable(
                f"{peer} passed this on without a signature, and the leader wants one; ask again, "
                "with an account (an address that needs none: it must be in the leader's file, too)"
            ) from None
        self._admit(caller, host_of(address), frame, peer)
        return caller

    def caller_again(self, address: str, frame: Frame) -> Caller:
        """The account that signed a request which came some time ago, by the accounts of now.

        It was admitted then. Raises Unauthorized.
        """
        return self._signed(address, frame) if self.is_on else UNASKED

    def judge_age(self, frame: Frame, since: float = float("-inf")) -> int | None:
        """A change was sealed since this node leads, in seconds of `now`. Raises SealStale.

        What the log takes from here on is not stamped before the seal, so that the next leader, or
        this node after a restart, knows up to where seals were used (R18). Returns the stamp; None
        for what is not sealed, or changes nothing.
        """
        if not self.is_on:
            return None
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

    def caller_with(self, address: str, key: str) -> Caller:
        """The account that a client registered with, as it is now."""
        return claimed(self.accounts, host_of(address), key) if self.is_on else UNASKED

    def take_connection(self, caller: Caller, connection: Connection) -> None:
        """Count a client's connection to its account's quota. Raises QueueFull."""
        account = caller.account
        if account is None or account.quota is None:
            return
        try:
            self.quotas.take_connection(account.access_key, account.quota, connection)
        except QuotaExceeded as error:
            raise QueueFull(str(error)) from None

    def check_send(self, caller: Caller) -> bool:
        """Has its account a quota, to which it is to be counted? Raises QueueFull."""
        account = caller.account
        if account is None or account.quota is None:
            return False
        try:
            self.quotas.check_send(account.access_key, account.quota)
        except QuotaExceeded as error:
            raise QueueFull(str(error)) from None
        return True

    def count_send(self, caller: Caller, messages: int, size: int) -> None:
        """Count a send that was checked, and was taken, to its account's quota."""
        account = caller.account
        if account is not None and account.quota is not None:
            self.quotas.count_send(account.access_key, account.quota, messages, size)

    def give_back(self, sender: str, frame: Frame | None) -> None:
        """Undo `count_send` of a send that began to wait for its topic."""
        account = self.accounts.by_key.get(sender)
        if frame is not None and account is not None and account.quota is not None:
            key, paid = account.access_key, message_count(frame)
            self.quotas.give_back(key, account.quota, paid, len(frame.body))

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
        if self._path is None:
            return False
        try:
            stamp = stamp_of(self._path)
            if stamp == self._seen:
                return False
            self._seen = stamp
            self._of_file = self._read(self._path)
            self._merge()
        except (OSError, AccountsError) as error:
            _log.error("%s: %s; the accounts read before stay in force", self._path, error)
            return False
        _log.info("%s: %d accounts are in force", self._path, len(self._of_file.by_key))
        self._turned()
        return True

    @staticmethod
    def _read(path: Path) -> Accounts:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise AccountsError(f"it has more than {FILE_BYTES_MAX} bytes; split it into groups")
        try:
            document = yaml.safe_load(data)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise AccountsError(f"it is no YAML: {' '.join(str(error).split())}") from None
        accounts = read_accounts(document)
        for account in accounts.by_key.values():
            check_secret(account)
        return accounts


def check_secret(account: Account) -> None:
    """Raises AccountsError for a secret that is short, or easy to guess."""
    for name, secret in zip(("secretKey", PREVIOUS_SECRET), account.secrets(), strict=False):
        if wrong := secret_error(secret):
            raise AccountsError(f"account {account.access_key!r}: {name} {wrong}")


def require(caller: Caller, needs: Needs) -> None:
    """Raises Unauthorized, which names the missing right."""
    try:
        caller.require(needs)
    except Denied as error:
        raise Unauthorized(str(error)) from None
