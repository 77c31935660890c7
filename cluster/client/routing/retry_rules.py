"""The next step after a failure: the first row that fits the error's attributes.

    retriable  invalid_route  outcome    then        pause
    no         any            any        give up
    yes        yes            any        ask who leads, then repeat
    yes        no             NOT_DONE   repeat      longer: the broker is full
    yes        no             UNKNOWN    repeat      the number makes a repeat harmless (R8)

A retry keeps queue, number and order. Retries end with the delivery timeout.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from cluster.errors import ClusterError, Outcome, SubscriptionInvalid, Unauthorized


class Action(enum.Enum):
    """The next step for a failed request."""

    GIVE_UP = "give up"
    FIND_LEADER = "find the leader, then repeat"
    REPEAT = "repeat"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row; None matches any value. `pause`: seconds before the next attempt."""

    retriable: bool
    invalid_route: bool | None
    outcome: Outcome | None
    action: Action
    pause: float = 0.0

    def fits(self, error: ClusterError) -> bool:
        """True if the error's attributes match this row."""
        return (
            error.retriable is self.retriable
            and self.invalid_route in (None, error.invalid_route)
            and self.outcome in (None, error.outcome)
        )


RULES = (
    Rule(False, None, None, Action.GIVE_UP),
    Rule(True, True, None, Action.FIND_LEADER, 0.01),
    Rule(True, False, Outcome.NOT_DONE, Action.REPEAT, 0.03),
    Rule(True, False, Outcome.UNKNOWN, Action.REPEAT, 0.01),
)


def is_final(error: ClusterError) -> bool:
    """Is it a refusal that a consumer must tell its user, because sending again cannot help?

    A consumer waits for what others may put right: a topic that is gone can be created again.
    """
    return isinstance(error, Unauthorized | SubscriptionInvalid)


def rule_for(error: ClusterError) -> Rule:
    """The first row that fits; each error fits one."""
    for rule in RULES:
        if rule.fits(error):
            return rule
    raise AssertionError(f"no rule fits {error!r}")
