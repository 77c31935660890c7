"""Five thousand requests to the admin HTTP, most of them harmed: by nobody, and with each token."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import limit, within

from ..harm import web_requests
from .conftest import TOKENS, MakeWorld

COUNT = 5_000
AT_ONCE = 6


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("role", [None, "viewer", "admin"])
async def test_requests_that_are_harmed_change_what_their_token_may(
    make_world: MakeWorld, role: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_world(tokens=True) as world:
        state = (await world.brokers.leader()).parts.state
        before = state.to_checkpoint()
        host, port = world.base.removeprefix("http://").rsplit(":", 1)
        rest = iter(list(web_requests(7, COUNT, TOKENS.get(role or ""))))

        async def worker() -> None:
            for data in rest:
                reader, writer = await asyncio.open_connection(host, int(port))
                try:
                    writer.write(data.replace(b"HOST", f"{host}:{port}".encode()))
                    writer.write_eof()
                    while await within(reader.read(1 << 16), "the end", limit(20)):
                        pass
                except OSError:
                    pass
                finally:
                    writer.close()

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
        assert (state.to_checkpoint() != before) == (role == "admin")
    assert "Traceback" not in caplog.text
