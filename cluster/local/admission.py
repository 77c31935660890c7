"""A running node is taken into its group, or in another's place; and whether a member is dead.

    join                 add, then wait until it has the log and votes
    replace, same name   readmit: it keeps its place in the quorum and is not counted until it has
                         the log again (R6)
    replace, new name    add, wait as above, then remove the dead one: the group is never smaller
                         than it was, and what fails on the way has changed nothing

The member in the group is this node only in this incarnation: another of its name is
somebody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.broker.node import BrokerNode
from cluster.client import Admin
from cluster.errors import ClusterError, PlannedMove
from commitlog.advice import Advised
from dledger.config import RaftConfig
from dledger.membership.handshake import RefusalReason

POLL_SECONDS = 0.1
#: A node calls its peers within a second, on a busy machine in ten.
CALL_SECONDS_MAX = 30.0
#: A member that was not heard for so long, and for as many of the longest election timeouts, is
#: dead. One that was heard so much later than before lives: more than what was still on its way.
DEAD_SECONDS, DEAD_TIMEOUTS = 3.0, 3
LIVES_SECONDS = 0.5
#: Those who know the group say these to a node that is no member yet; it goes on calling.
_EXPECTED = frozenset({RefusalReason.UNKNOWN_MEMBER, RefusalReason.WRONG_INCARNATION})

_log = logging.getLogger(__name__)


class AdmissionError(Advised):
    """A node was not taken in; the text gives the reason and one thing to try."""

    advice = "fix that, and give the command again"
    retriable = False


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a node is wanted.

    Attributes:
        broker: the group's broker name.
        node: its id.
        kind: "add", "add-learner", or "readmit" for a member's name.
        instead_of: who is removed afterwards; "" for nobody.
    """

    broker: str
    node: str
    kind: str = "add"
    instead_of: str = ""

    @property
    def standing(self) -> str:
        """The final standing."""
        return "learner" if self.kind == "add-learner" else "voter"


def member_of(found: dict[str, Any], node: str) -> dict[str, Any] | None:
    """A member's row in the answer of `Admin.members`."""
    return next((row for row in found["members"] if row["node"] == node), None)


async def change(
    admin: Admin, broker: str, kind: str, node: str, *, seconds_max: float, dry_run: bool = False
) -> dict[str, Any]:
    """One change of the group, asked for again while it is only too early.

    Raises what `Admin.change_members` does; PlannedMove when it was too early for `seconds_max`.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds_max
    while True:  # ends with an answer or in time
        try:
            return await admin.change_members(broker, kind, node, dry_run=dry_run)
        except PlannedMove:
            if loop.time() > end:
                raise
            await asyncio.sleep(POLL_SECONDS)


async def is_dead(admin: Admin, broker: str, node: str) -> bool:
    """Whether the leader has not heard a member for some seconds; looks for so long if need be.

    A member that is heard again meanwhile lives. Raises AdmissionError when it is none.
    """
    loop = asyncio.get_running_loop()
    before: tuple[int, float, float] | None = None
    while True:  # a dead one is silent for ever longer, one that lives is heard again
        asked = loop.time()
        found = await admin.members(broker)
        row = member_of(found, node)
        if row is None:
            raise AdmissionError(f"{broker} has no member {node}; dledger member list shows them")
        silent = row["silent_seconds"]
        if silent is None:  # it leads
            return False
        if silent >= _dead_after(found):
            return True
        if before is None or before[0] != found["term"]:
            before = found["term"], silent, loop.time()
        elif silent + LIVES_SECONDS < before[1] + asked - before[2]:
            return False
        await asyncio.sleep(POLL_SECONDS)


def _dead_after(found: dict[str, Any]) -> float:
    """Seconds of silence."""
    default_ms = RaftConfig.__dataclass_fields__["election_timeout_max_ms"].default
    longest_ms = found["shared"]["settings"].get("raft.election_timeout_max_ms", default_ms)
    return max(DEAD_SECONDS, DEAD_TIMEOUTS * float(longest_ms) / 1000)


async def take_in(admin: Admin, seat: Seat, node: BrokerNode) -> None:
    """Have a running node taken in; returns when all is done.

    Raises AdmissionError, and InvalidRequest when the group refuses for good.
    """
    incarnation = node.parts.log.driver.hard.state.incarnation
    await _enter(admin, seat, incarnation, lambda: refusal(node))
    await _become(admin, seat, incarnation)
    if seat.instead_of:
        await _remove(admin, seat)


async def _enter(admin: Admin, seat: Seat, incarnation: int, refused: Callable[[], str]) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + CALL_SECONDS_MAX
    while True:  # ends when it is in, is refused, or in time
        try:
            row = member_of(await admin.members(seat.broker), seat.node)
            if row is None or row["incarnation"] != incarnation:
                await admin.change_members(seat.broker, seat.kind, seat.node)
            _log.info("%s is in %s and is sent the log", seat.node, seat.broker)
            return
        except ClusterError as error:
            if not error.retriable:
                raise
            if why := refused():
                raise AdmissionError(f"{seat.node} is not let in: {why}") from error
            if loop.time() > end:
                raise AdmissionError(
                    f"{seat.node} was not taken in within {CALL_SECONDS_MAX:.0f} s: {error}; see "
                    "that the nodes reach each other's peer ports, and give the command again"
                ) from error
        await asyncio.sleep(POLL_SECONDS)


async def _become(admin: Admin, seat: Seat, incarnation: int) -> None:
    """Wait until the node has its final standing, without a limit, since logs may be long."""
    while True:  # ends when it is, or was removed again
        try:
            row = member_of(await admin.members(seat.broker), seat.node)
        except ClusterError as error:
            if not error.retriable:
                raise
        else:
            if row is None or row["incarnation"] != incarnation:
                raise AdmissionError(
                    f"{seat.node} was taken out of {seat.broker} again before it had the log"
                )
            if row["standing"] == seat.standing:
                _log.info("%s is a %s of %s", seat.node, seat.standing, seat.broker)
                return
        await asyncio.sleep(POLL_SECONDS)


async def _remove(admin: Admin, seat: Seat) -> None:
    """The dead one goes, unless an attempt before has removed it."""
    while True:  # ends when it is gone, or the group refuses for good
        try:
            if member_of(await admin.members(seat.broker), seat.instead_of) is not None:
                await admin.change_members(seat.broker, "remove", seat.instead_of)
            _log.info("%s is no member of %s any more", seat.instead_of, seat.broker)
            return
        except ClusterError as error:
            if not error.retriable:
                raise
        await asyncio.sleep(POLL_SECONDS)


def refusal(node: BrokerNode) -> str:
    """Why no peer will ever let this node in, "" while one may: it knows us, or was not reached."""
    links = node.parts.log.driver.transport.status().values()
    if any(link.open or link.refusal in _EXPECTED for link in links):
        return ""
    return next((link.error for link in links if link.refusal), "")
