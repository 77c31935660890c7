"""A configuration as the text in an entry's body, and back.

{"members": [{"address": "10.0.0.5:40911", "incarnation": 807152, "node": "n0",
              "standing": "voter"}, ...]}
"""

from __future__ import annotations

import json
from typing import Any

from dledger.core.configuration import MEMBERS_MAX, Configuration, Member, Standing
from dledger.core.types import NodeId, Reason

#: Why a change of the group is refused, and whether waiting helps.
REFUSED_CHANGES = {
    Reason.CHANGE_IN_PROGRESS: (
        "another change of the group is not committed yet; wait for it and try again",
        True,
    ),
    Reason.FALL_BEHIND_TOO_MUCH: (
        "the node does not keep pace with the log yet; it is made a voter when it does",
        True,
    ),
    Reason.ALREADY_MEMBER: (
        "the node is a member in this standing already; see the list of members",
        False,
    ),
    Reason.UNKNOWN_MEMBER: (
        "no member has this name; dledger member list shows those there are",
        False,
    ),
    Reason.LAST_VOTER: ("the last voter cannot go: nobody would be left to decide", False),
    Reason.UNMET_MEMBER: (
        "the leader has never met one of the members, so a node that comes in could take any "
        "machine of that name for it; start that member, or remove it first",
        True,
    ),
    Reason.TOO_MANY_MEMBERS: (f"a group has at most {MEMBERS_MAX} members; remove one", False),
    Reason.QUORUM_LOST: (
        "the voters that answer would be no majority afterwards, and nothing could be decided any "
        "more; start the missing ones, or remove those first",
        True,
    ),
}


def encode_configuration(configuration: Configuration) -> bytes:
    """UTF-8 text of a configuration."""
    members = [
        {
            "node": member.node_id,
            "standing": member.standing.value,
            "incarnation": member.incarnation,
            "address": member.address,
        }
        for member in configuration.members
    ]
    return json.dumps({"members": members}, sort_keys=True).encode()


def decode_configuration(text: bytes) -> Configuration:
    """Raises ValueError when the text is no configuration."""
    try:
        rows: list[dict[str, Any]] = json.loads(text)["members"]
        members = tuple(
            Member(
                NodeId(str(row["node"])),
                Standing(row["standing"]),
                int(row["incarnation"]),
                str(row["address"]),
            )
            for row in rows
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no configuration of a group: {error}") from error
    if len({member.node_id for member in members}) != len(members) or len(members) > MEMBERS_MAX:
        raise ValueError("a configuration names a node twice, or too many nodes")
    return Configuration(members)
