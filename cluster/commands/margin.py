"""How many more members of a group may fail now, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def margin_sentence(found: Mapping[str, Any]) -> str:
    """The leader's figures as a sentence: `majority`, `may_fail_now`, `uncounted`."""
    spare = int(found["may_fail_now"])
    if spare > 0:
        what = f"{spare} more may fail now"
    elif spare == 0:
        what = "0 more may fail now: the next loss stops the group"
    else:
        what = f"{-spare} too few are counted on: nothing is decided until they are back"
    who = "; ".join(f"{node} {why}" for node, why in sorted(found["uncounted"].items()))
    return f"{found['majority']} decide; {what}" + (f" ({who})" if who else "")
