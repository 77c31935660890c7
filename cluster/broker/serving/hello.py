"""What a link between two nodes says first: for which client it is, and who opens it.

Hello: request 31002, oneway: ext clientAddress, node, stamp (ms), proof. With a cluster secret the
proof is HMAC-SHA256 over the other three, and a stamp older than PROOF_SECONDS_MAX is refused.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from cluster.errors import InvalidRequest, Unauthorized
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import FLAG_ONEWAY, Frame
from commitlog.hosts import Host

PROOF_SECONDS_MAX = 30.0  # clocks of one cluster agree far better; a replay only repeats an address


@dataclass(frozen=True, slots=True)
class Hello:
    """What a link says first."""

    client: Host
    node: str
    stamp_ms: int


def encode_hello(client_address: str, node: str, stamp_ms: int, secret: str | None) -> Frame:
    ext = {"clientAddress": client_address, "node": node, "stamp": str(stamp_ms)}
    if secret is not None:
        ext["proof"] = _proof(secret, client_address, node, str(stamp_ms))
    return Frame(RequestCode.FORWARD_HELLO, 0, ext, flag=FLAG_ONEWAY)


def read_hello(frame: Frame, now_ms: int, secret: str | None) -> Hello:
    """Raises InvalidRequest or Unauthorized; the connection is closed then."""
    try:
        address, node, stamp = (frame.ext[name] for name in ("clientAddress", "node", "stamp"))
        host, _, port = address.rpartition(":")
        client = Host(host.strip("[]"), int(port))
        age_ms = abs(now_ms - int(stamp))
    except (KeyError, ValueError) as error:
        raise InvalidRequest(f"a forwarding hello cannot be read: {error!r}") from None
    if secret is not None:
        wanted = _proof(secret, address, node, stamp)
        if age_ms > PROOF_SECONDS_MAX * 1000 or not hmac.compare_digest(
            wanted.encode(), frame.ext.get("proof", "").encode()
        ):
            raise Unauthorized(f"node {node} did not prove that it belongs to this cluster")
    return Hello(client, node, int(stamp))


def _proof(secret: str, *parts: str) -> str:
    text = "\n".join(parts).encode()
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
