"""For how long something is known: each field of `State` says it, and `State.end` drops it then.

    NODE         while the process runs: log, term, vote, disk, clock
    TERM         while this node is in one term: how far its log equals that of the term's leader
    LEADER       while it follows one leader: what it has asked it
    CANDIDACY    one rehearsal or candidacy of this node: votes, and whether it was appointed
    LEADERSHIP   one leadership of this node: views of followers, what waits for them, plans

What is kept longer than it is true does harm later: by the view of a follower from an earlier
leadership a leader would commit what no majority has (S5).
"""

from __future__ import annotations

import enum
from dataclasses import MISSING, Field
from typing import Any


class Span(enum.Enum):
    """See the module's text."""

    NODE = "node"
    TERM = "term"
    LEADER = "leader"
    CANDIDACY = "candidacy"
    LEADERSHIP = "leadership"


#: What a field's metadata is, by its span.
NODE, TERM, LEADER, CANDIDACY, LEADERSHIP = ({Span: span} for span in Span)


def span_of(one: Field[Any]) -> Span | None:
    """The field's span; None: the constructor sets the field, or it follows from the others."""
    span: Span | None = one.metadata.get(Span)
    return span


def fresh(one: Field[Any]) -> Any:
    """The value of a span's field outside of the span."""
    return one.default if one.default_factory is MISSING else one.default_factory()
