"""A node does not start without assertions.

Assertions hold the rules that protect messages (never truncate below commit, one sync at a time,
terms never go back). Under `python -O` they are gone and a mistake of ours would be silent loss.
"""

from __future__ import annotations

from dledger.errors import NodeFailed


def refuse_without_assertions() -> None:
    """Raises NodeFailed under `python -O` or PYTHONOPTIMIZE."""
    if not __debug__:
        raise NodeFailed(
            "assertions are switched off (-O or PYTHONOPTIMIZE) and they protect your messages; "
            "start Python without -O"
        )
