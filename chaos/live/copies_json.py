"""The replicas' bytes in a run's folder, for a later judgement.

copies.json   {"first": 0, "last": 811, "unreadable": {},
               "changes": [[41, ["n0", "n1"], []]],     index, voters, those that never counted
               "links": "<8 hex digits an entry>",      the log's own checksums (log_links.py)
               "nodes": {"n0": {
               "chain": "<32 hex digits an entry>",
               "regions": {"log": {"start": 0, "size": 271034, "chunks": "<32 hex digits>"}}}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.checkers.chains import DIGEST_SIZE
from chaos.checkers.copies import Copies, Copy, Region
from chaos.checkers.membership import Change


def to_fields(copies: Copies) -> dict[str, Any]:
    """As copies.json has it."""
    return {
        "first": copies.first,
        "last": copies.last,
        "unreadable": dict(copies.unreadable),
        "changes": None
        if copies.changes is None
        else [[one.at, sorted(one.voters), sorted(one.mute)] for one in copies.changes],
        "links": copies.links.hex(),
        "nodes": {
            node: {
                "chain": b"".join(copy.chain).hex(),
                "regions": {
                    name: {
                        "start": region.start,
                        "size": region.size,
                        "chunks": b"".join(region.chunks).hex(),
                    }
                    for name, region in sorted(copy.regions.items())
                },
            }
            for node, copy in sorted(copies.of.items())
        },
    }


def from_fields(found: Mapping[str, Any]) -> Copies:
    """Reads `Copies` from the fields of copies.json. Raises KeyError, ValueError or TypeError if
    the fields are not such a file's."""
    copies = {
        node: Copy(
            _digests(row["chain"]),
            {
                name: Region(one["start"], one["size"], tuple(_digests(one["chunks"])))
                for name, one in row["regions"].items()
            },
        )
        for node, row in found["nodes"].items()
    }
    told = found.get("changes")  # not in folders of earlier versions
    changes = None
    if told is not None:
        changes = [Change(at, frozenset(voters), frozenset(mute)) for at, voters, mute in told]
    links = bytes.fromhex(found.get("links", ""))  # nor is this
    return Copies(found["first"], found["last"], copies, found["unreadable"], changes, links)


def _digests(text: str) -> list[bytes]:
    data = bytes.fromhex(text)
    return [data[at : at + DIGEST_SIZE] for at in range(0, len(data), DIGEST_SIZE)]
