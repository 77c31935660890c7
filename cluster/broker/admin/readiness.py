"""Whether a node serves clients now: the answer of /readyz, for which `dledger up` waits.

    not ready   why
    leads       its own first entry is not committed yet, or its tables do not show it
    follows     the leader, or its address, is not known: nothing could be passed on
    either      another program has its port; committed entries are still to be applied; its disk
                takes no writes; no name server was told of it, so no client is led here

Alive is another question (/healthz): a node that is not ready is left alone, it gets there by
itself; one that is not alive has to be started again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dledger.core.types import DiskHealth

#: Producers are refused then, here or, when this node leads, for the whole group.
_TAKES_NO_WRITES = {
    health.name.lower() for health in (DiskHealth.LOW, DiskHealth.FULL, DiskHealth.STALLED)
}


def not_ready(status: Mapping[str, Any], *, lag_max: int, has_name_servers: bool) -> str:
    """One sentence why clients are not served now; "" when they are.

    Args:
        status: of `admin_state.snapshot`.
        lag_max: entries of the log that may wait to be applied.
    """
    if status["failed"]:
        return f"this node has stopped: {status['failed']}"
    if unserved := _unserved(status):
        return unserved
    for address, reason in status["closed_ports"].items():
        return f"no client reaches {address}: {reason}"
    behind = int(status["last_index"]) - int(status["applied_index"])
    if behind > lag_max:
        return f"{behind} entries are still to be applied"
    if status["disk"] in _TAKES_NO_WRITES:
        return f"the disk of this node is {status['disk']}: {status['disk_detail']}"
    asked = status["registrations"] or status["registration_failures"]
    if has_name_servers and not asked:
        return "no name server knows this node yet"
    return ""


def _unserved(status: Mapping[str, Any]) -> str:
    """Why requests would wait here, or be refused, by the node's role alone."""
    if status["serving"] == "leading":
        return ""
    if status["role"] == "leader":
        if int(status["committed_index"]) < int(status["no_op_index"]):
            return f"this node leads term {status['term']} and has committed nothing in it yet"
        return f"this node leads term {status['term']} and its tables are not loaded yet"
    if status["serving"] == "waiting" or not status["leader"]:
        if status["forgot"]:
            return (
                "this node lost its vote file or its flush mark, and takes no part until its group "
                "readmits it: dledger member replace NODE --yes"
            )
        return "no leader is known"
    if not status["leader_address"]:
        return f"{status['leader']} leads and its address for clients is not known here"
    return ""
