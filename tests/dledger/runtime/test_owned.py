"""What a node has the loop call: a mistake in it ends the node, or costs one client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from dledger.runtime.owned import SPARED, UNHANDLED, Owned, is_ours, watch
from tests.waiting import within

ERROR = ValueError("a mistake")


def mistake(*_: object) -> None:
    raise ERROR


async def task() -> None:
    raise ERROR


def in_a_turn(owned: Owned) -> None:
    owned.call_soon(mistake)


def in_a_while(owned: Owned) -> None:
    owned.call_later(0, mistake)


def at_a_time(owned: Owned) -> None:
    owned.call_at(owned.time(), mistake)


def in_a_task(owned: Owned) -> None:
    owned.create_task(task())


def when_something_is_done(owned: Owned) -> None:
    future = owned.loop.create_future()
    owned.when_done(future, mistake)
    future.set_result(None)


def from_a_thread(owned: Owned) -> None:
    owned.loop.run_in_executor(None, owned.call_soon_threadsafe, mistake)


WAYS = [in_a_turn, in_a_while, at_a_time, in_a_task, when_something_is_done, from_a_thread]


@pytest.mark.parametrize("way", WAYS)
async def test_a_mistake_in_what_the_loop_calls_is_told(way: Callable[[Owned], None]) -> None:
    died: asyncio.Queue[BaseException] = asyncio.Queue(maxsize=1)
    way(Owned(died.put_nowait))
    assert await within(died.get(), "the mistake is told") is ERROR


async def test_a_task_that_is_cancelled_is_no_mistake() -> None:
    died: list[BaseException] = []

    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    forever = Owned(died.append).create_task(wait_for_ever())
    await asyncio.sleep(0)
    forever.cancel()
    await asyncio.wait({forever})
    assert died == []


async def test_what_a_request_leaves_for_later_is_on_its_behalf() -> None:
    """Its event is the log's; the mistake is the request's."""
    owned, later, spared = Owned(mistake), list[Callable[[], None]](), list[BaseException]()

    def guard(step: Callable[[], object]) -> None:
        try:
            owned.on_behalf(guard, step)
        except ValueError as error:
            spared.append(error)

    def request() -> None:
        later.append(owned.bound(lambda: later.append(owned.bound(mistake))))
        owned.on_own_behalf(lambda: later.append(owned.bound(own)))

    def own() -> None:
        raise KeyError("the log's")

    guard(request)
    later[0]()
    later[2]()
    assert spared == [ERROR], "also two steps later"
    with pytest.raises(KeyError):
        later[1]()


def unhandled(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(mistake)


async def test_what_nobody_caught_ends_the_program(caplog: pytest.LogCaptureFixture) -> None:
    loop, died = asyncio.get_running_loop(), list[BaseException]()
    watch(loop, died.append)
    ours = is_ours
    try:
        with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.ERROR):
            patch.setattr("dledger.runtime.owned._OURS", ("tests", __name__.partition(".")[0]))
            assert ours(_raised())
            unhandled(loop)
            await asyncio.sleep(0)
            assert died == [ERROR]
            assert UNHANDLED in caplog.text
            context = {"message": "data_received failed", "exception": _raised(), "protocol": 1}
            loop.call_exception_handler(context)
            assert died == [ERROR], "the connection is closed, as asyncio does it"
            assert SPARED in caplog.text
    finally:
        loop.set_exception_handler(None)


async def test_mistakes_of_others_are_logged_as_ever() -> None:
    loop, died, told = asyncio.get_running_loop(), list[BaseException](), list[object]()
    watch(loop, died.append)
    loop.default_exception_handler = told.append  # type: ignore[method-assign]
    loop.call_exception_handler({"message": "accept", "exception": OSError(24, "too many")})
    loop.set_exception_handler(None)
    assert (len(told), died) == (1, [])


def _raised() -> Exception:
    try:
        mistake()
    except ValueError as error:
        return error
    raise AssertionError
