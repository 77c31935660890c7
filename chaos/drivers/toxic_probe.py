"""Talks with a node through a proxy, to measure the effect of a toxic on the users of the link.

ask    a client's request and the time, the bytes and the pieces of its answer
knock  bytes that are no frame: a node ends such a connection as soon as it has read them,
       so the time until then is that of the way there; peers' ports answer nothing else
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from chaos.live.toxic_links import ToxicLink
from cluster.protocol.codes import RequestCode
from cluster.protocol.frames import Frame, encode_frame
from commitlog.address import split_address

NO_FRAME = b"\xff"
READ_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    """How a talk went: seconds, bytes that came back and the reads that they took; its last word.

    `end`: "answered", "ended", "reset", "refused", "silent".
    """

    end: str
    seconds: float = 0.0
    size: int = 0
    pieces: int = 0


async def ask(link: ToxicLink, seconds_max: float) -> Answer:
    """One request of a client; "answered" when the whole answer came. For client and forward."""
    request = Frame(RequestCode.GET_BROKER_RUNTIME_INFO, opaque=1)
    return await _talk(link, encode_frame(request), seconds_max, framed=True)


async def knock(link: ToxicLink, seconds_max: float, size: int = 64) -> Answer:
    """So many bytes that are no frame; "ended" when the node has read them."""
    return await _talk(link, NO_FRAME * size, seconds_max, framed=False)


async def _talk(link: ToxicLink, data: bytes, seconds_max: float, *, framed: bool) -> Answer:
    host, port = split_address(link.listen)
    began = time.monotonic()
    end, size, pieces = "silent", 0, 0
    writer = None
    try:
        async with asyncio.timeout(seconds_max):
            reader, writer = await asyncio.open_connection(host, int(port))
            began = time.monotonic()
            writer.write(data)
            wanted = 1 << 32
            head = b""
            while size < wanted:
                piece = await reader.read(READ_BYTES_MAX)
                if not piece:
                    break
                size, pieces = size + len(piece), pieces + 1
                head = (head + piece)[:4]
                if framed and len(head) == 4:
                    wanted = 4 + int.from_bytes(head, "big")
            end = "answered" if size >= wanted else "ended"
    except TimeoutError:
        pass
    except ConnectionRefusedError:
        end = "refused"
    except OSError:
        end = "reset"
    finally:
        if writer is not None:
            writer.transport.abort()
    return Answer(end, time.monotonic() - began, size, pieces)
