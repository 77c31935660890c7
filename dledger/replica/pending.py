"""Proposals without a known outcome yet, in the order of their entries (S8).

    appended ─┬─► committed and applied ─────────────────────────► done(None)
              ├─► its leadership ends; the next leader may commit the very same entries:
              │       ├─► committed and applied here ────────────► done(None)
              │       ├─► cut from this log, or a state taken ───► done(OutcomeUnknown)
              │       └─► OUTLIVES_MAX election timeouts later ──► done(OutcomeUnknown)
              └─► the node stops, its disk fails or hangs ───────► done(OutcomeUnknown)

Why the wait: who is told "unknown" sends again, and without numbers that is stored twice. Why it is
safe: what was never cut from this log since it was appended stands there as it was proposed, so it
is what is committed when its index is (log matching, S2, S3). Cut is not "did not happen": another
node may hold the entries and lead one day.
"""

from __future__ import annotations

from collections import deque

from dledger.core.types import Index, Term
from dledger.errors import OutcomeUnknown
from dledger.replica.ports import Proposal

#: Longest election timeouts that an entry may wait for the next leader: a lost election included.
OUTLIVES_MAX = 2.0
_NEVER = float("inf")


class Pending:
    """The proposals of one replica; `election_timeout_max` in the caller's seconds."""

    def __init__(self, election_timeout_max: float) -> None:
        self._wait_max = OUTLIVES_MAX * election_timeout_max
        #: Of an idle group there are none, and an empty deque has 760 bytes.
        self._proposals: deque[Proposal] | None = None
        self._ended = Term(-1)  # the newest leadership that has ended
        #: When `expire` is due.
        self.deadline = _NEVER

    @property
    def count(self) -> int:
        """Proposals that are appended and have no outcome yet."""
        return len(self._proposals or ())

    def add(self, proposal: Proposal) -> None:
        """Adds a proposal that was appended; its entries lie above those of all others here."""
        if self._proposals is None:
            self._proposals = deque()
        self._proposals.append(proposal)

    def applied(self, index: Index) -> None:
        """Entries up to `index` are committed and applied."""
        while self._proposals and self._proposals[0].last <= index:
            proposal = self._proposals.popleft()
            proposal.done(proposal, None)
        if not self._proposals:
            self._proposals = None

    def written(self, index: Index) -> None:
        """A majority has written the entries up to `index` (R22)."""
        for proposal in self._proposals or ():
            if proposal.last > index:
                return
            if proposal.written is not None:
                told, proposal.written = proposal.written, None
                told(proposal)

    def leadership_ended(self, now: float) -> None:
        """Harmless when none had begun, or when it is told more than once."""
        if self._proposals and self._proposals[-1].term > self._ended:
            self._ended = self._proposals[-1].term
            self.deadline = now + self._wait_max

    def expire(self, now: float) -> None:
        """Give up proposals of a leadership that ended long ago: their outcome stays unknown."""
        if now < self.deadline:
            return
        self.deadline = _NEVER
        while self._proposals and self._proposals[0].term <= self._ended:
            _unknown(self._proposals.popleft())

    def cut_after(self, index: int) -> None:
        """Entries above `index` are not in this log any more; -1: none of them is."""
        while self._proposals and self._proposals[-1].last > index:
            _unknown(self._proposals.pop())

    def give_up(self) -> None:
        """This node will not know."""
        while self._proposals:
            _unknown(self._proposals.popleft())


def _unknown(proposal: Proposal) -> None:
    unknown = OutcomeUnknown(
        f"leadership of term {proposal.term} ended before entries {proposal.first}"
        f"..{proposal.last} were known to be committed; look, or send again with the "
        "same producer id and sequence"
    )
    proposal.done(proposal, unknown)
