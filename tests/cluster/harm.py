"""Bytes that are not what they were, and requests to the admin HTTP of which most are harmed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random


def harmed(random: Random, data: bytes) -> bytes:
    """Another text than `data`, always."""
    found = bytearray(data)
    while bytes(found) == data:
        at, deed = random.randrange(len(found) or 1), random.randrange(5)
        if deed == 0:
            found[at] ^= 1 << random.randrange(8)
        elif deed == 1:
            found[at] = random.choice((0, 0x7F, 0x80, 0xFF))
        elif deed == 2:
            del found[at : at + random.choice((1, 4, 40))]
        elif deed == 3:
            found[at:at] = random.randbytes(random.choice((1, 9)))
        else:
            found[at:] = random.randbytes(random.randrange(40))
        if not found:
            return b"\x00"
    return bytes(found)


def web_requests(seed: int, count: int, token: str | None) -> Iterator[bytes]:
    """Every method and paths that are served; HOST stands for the address of the server."""
    random = Random(seed)
    paths = ["/healthz", "/readyz", "/metrics", "/api/v1/status", "/api/v1/topics", "/docs"]
    paths += ["/api/v1/topics/T", "/api/v1/groups/G", "/api/v1/groups/G/offsets", "/", "/api/v1/x"]
    bodies = [b"", b"{}", b'{"name":"made","queues":4}', b'{"topic":"made"}', b"[" * 500, b"\xff"]
    hosts = ["HOST", "localhost", "evil.example", "", "HOST, evil.example", "[::1]:8080"]
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
    for _ in range(count):
        body = random.choice(bodies)
        lines = [
            f"{random.choice(methods)} {random.choice(paths)} HTTP/1.1",
            f"Host: {random.choice(hosts)}",
            f"Content-Length: {len(body)}",
            "Content-Type: application/json",
            "Connection: close",
        ]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        if random.random() < 0.3:
            lines.append(f"Origin: {random.choice(('http://HOST', 'http://evil.example', 'null'))}")
        data = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
        yield harmed(random, data) if random.random() < 0.7 else data
