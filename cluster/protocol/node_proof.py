"""A node proves to a name server that it knows the cluster secret: 103 and 104.

    ext nodeStamp (ms), nodeProof = hex(HMAC-SHA256(secret, code, every other field, body))

Every name and value goes in with its length, so no border between them can be moved. A proof is
good for PROOF_SECONDS_MAX, and only when it is the newest of its broker address: a node stamps each
request later than the one before. So a recorded registration brings nobody back who has left, and a
recorded word that a node leaves takes nobody out who has come again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from cluster.protocol.frames import Frame

STAMP, PROOF = "nodeStamp", "nodeProof"
PROOF_SECONDS_MAX = 30.0  # clocks of one cluster agree far better

_STAMP_LENGTH_MAX = 20


def prove(frame: Frame, now_ms: int, secret: str) -> Frame:
    """The request with its proof."""
    ext = {**frame.ext, STAMP: str(now_ms)}
    return frame._replace(ext={**ext, PROOF: _proof(frame.code, ext, frame.body, secret)})


def is_proven(frame: Frame, now_ms: int, secret: str) -> bool:
    """Did a node with that secret make this request, lately?"""
    stamp = frame.ext.get(STAMP, "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= _STAMP_LENGTH_MAX):
        return False
    wanted = _proof(frame.code, frame.ext, frame.body, secret)
    given = frame.ext.get(PROOF, "")
    same = hmac.compare_digest(wanted.encode(), given.encode())
    return same and abs(now_ms - int(stamp)) <= PROOF_SECONDS_MAX * 1000


class NewestProofs:
    """The newest stamp of each broker address, as long as an older one could be proven."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], int] = {}

    def take(self, frame: Frame, now_ms: int) -> bool:
        """Is the request, which is proven, newer than all before of its address?"""
        reach_ms = int(PROOF_SECONDS_MAX * 1000)
        # A stamp that is further ahead is of before this machine's clock was set back.
        self._newest = {
            address: stamp
            for address, stamp in self._newest.items()
            if abs(now_ms - stamp) <= reach_ms
        }
        address = frame.ext.get("brokerName", ""), frame.ext.get("brokerAddr", "")
        stamp = int(frame.ext[STAMP])
        if stamp <= self._newest.get(address, -1):
            return False
        self._newest[address] = stamp
        return True


def _proof(code: int, ext: Mapping[str, str], body: bytes, secret: str) -> str:
    parts = [b"dledger node", str(code).encode()]
    for name in sorted(ext):
        if name != PROOF:
            parts += [name.encode(), ext[name].encode()]
    parts.append(body)
    content = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()
