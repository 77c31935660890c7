"""The rules of access to a name server: each request has one of them.

OPEN    every client: it asks for routes before it knows any other address
LOOK    every account; without accounts every client
ADMIN   an admin account; without accounts every client on this machine, so that mqadmin works
NODE    a node of the cluster, which proves it with the cluster secret (node_proof.py), or an
        admin account; with neither a secret nor accounts every client
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable

from cluster.core.access.needs import ACCOUNT, ADMIN
from cluster.errors import Unauthorized
from cluster.nameserver.used_seals import UsedSeals
from cluster.protocol.frames import Frame
from cluster.protocol.node_proof import PROOF, NewestProofs, is_proven
from cluster.security.access_file import Access, require
from commitlog.address import host_of
from dledger.config import is_loopback


class Rule(enum.Enum):
    """The rules; see the module's text."""

    OPEN = "open"
    LOOK = "look"
    ADMIN = "admin"
    NODE = "node"


class Guard:
    """Checks the rule of each request.

    `accounts` None and `secret` None: a name server of one machine, which checks neither."""

    def __init__(
        self,
        accounts: Access | None,
        secret: str | None,
        now_ms: Callable[[], int],
        seals: UsedSeals | None = None,
    ) -> None:
        self.accounts, self._secret, self._now_ms = accounts, secret, now_ms
        self._seals = seals or UsedSeals()
        if accounts is not None:
            accounts.spend_until(self._seals.until_ms)
        self._newest = NewestProofs()

    def check(self, rule: Rule, address: str, frame: Frame) -> None:
        """Raises Unauthorized. `address`: the client's host:port."""
        if rule is Rule.OPEN:
            return
        if rule is Rule.NODE:
            self._check_node(address, frame)
        elif self.accounts is not None:
            caller = self.accounts.caller(address, frame)
            require(caller, ADMIN if rule is Rule.ADMIN else ACCOUNT)
        elif rule is Rule.ADMIN and not is_loopback(host_of(address)):
            raise Unauthorized(
                f"request {frame.code} changes this name server, which has no accounts; ask from "
                "its own machine, or start it with --acl-file"
            )

    def keep_seal(self, frame: Frame) -> Awaitable[None] | None:
        """The write to wait for before a request that was checked is done; None: there is none.

        Raises Unauthorized. The awaitable raises OSError.
        """
        stamp_ms = self.accounts.judge_age(frame) if self.accounts is not None else None
        return None if stamp_ms is None else self._seals.keep(stamp_ms)

    def _check_node(self, address: str, frame: Frame) -> None:
        if self._secret is not None and (PROOF in frame.ext or self.accounts is None):
            now_ms = self._now_ms()
            if not is_proven(frame, now_ms, self._secret):
                raise Unauthorized(
                    "this registration does not prove that it is a node's of this cluster; give "
                    "every broker the name server's cluster secret, and the machines one time"
                )
            if not self._newest.take(frame, now_ms):
                raise Unauthorized(
                    "a newer registration of this broker address came before; send a new one, or "
                    "look for who repeats it"
                )
        elif self.accounts is not None:
            require(self.accounts.caller(address, frame), ADMIN)
