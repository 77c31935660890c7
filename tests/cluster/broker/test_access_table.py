"""Every request code, tried by every kind of caller, against a written table: by effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.protocol.frames import Frame

from .access_attempts import ATTEMPTS
from .access_table import CALLERS, PROVEN_CODES, ROWS, Row
from .access_world import ACCOUNTS, SETTINGS, World
from .conftest import MakeBrokers

NO_PERMISSION = 16


def test_every_row_is_tried_and_every_trial_is_written_down() -> None:
    rows = [(row.code, row.what) for row in ROWS]
    assert len(set(rows)) == len(rows)
    assert set(rows) == set(ATTEMPTS)


async def test_every_routed_code_has_a_row(make_brokers: MakeBrokers) -> None:
    """A new route fails here until the table says who may use it."""
    async with make_brokers() as brokers:
        routes = (await brokers.leader()).parts.router.handlers
        assert set(routes) == {row.code for row in ROWS}
        assert not PROVEN_CODES & set(routes)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("entry", ["leader", "follower"])
async def test_each_caller_does_what_the_table_says_and_nothing_else(
    make_brokers: MakeBrokers, tmp_path: Path, entry: str
) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    number = 1 if entry == "leader" else 3
    async with make_brokers(number, acl_file=str(file), **SETTINGS) as brokers:
        leader = await brokers.leader()
        asked = leader if entry == "leader" else await brokers.follower()
        world = await World(brokers, leader, asked).open()
        wrong = []
        for row in ROWS:
            allowed = [who for who in CALLERS if who in row.allowed]
            for who in allowed:
                wrong += await _try_allowed(world, row, who)
            refused = [who for who in CALLERS if who not in allowed]
            if refused:
                wrong += await _try_refused(world, row, refused)
        assert not wrong, "\n".join(wrong)


async def _try_allowed(world: World, row: Row, who: str) -> list[str]:
    """What is not as the row says."""
    ask = await ATTEMPTS[row.code, row.what](world)
    await world.settled()
    before, told = world.picture(), world.told()
    answer = await world.callers[who].ask(row.code, ask)
    await world.settled()
    found = _effects(world, before, told, answer)
    if row.effect in found:
        return []
    name = f"{row.code} {row.what!r} by {who}"
    return [f"{name}: {row.effect} is not in {found}; {answer.code}, {answer.remark}"]


async def _try_refused(world: World, row: Row, refused: list[str]) -> list[str]:
    """What is not as the row says; all of them ask the same, and none of it may have an effect."""
    ask = await ATTEMPTS[row.code, row.what](world)
    await world.settled()
    before, told = world.picture(), world.told()
    wrong = []
    for who in refused:
        name = f"{row.code} {row.what!r} by {who}"
        answer = await world.callers[who].ask(row.code, ask)
        if answer.code != NO_PERMISSION:
            wrong.append(f"{name}: code {answer.code}, {answer.remark}")
        if answer.body or answer.ext:
            wrong.append(f"{name}: it was told {dict(answer.ext)}, {answer.body!r}")
        world.callers[who].tell(row.code, ask)
    await world.settled()
    name = f"{row.code} {row.what!r} by one of {', '.join(refused)}"
    if world.picture() != before:
        wrong.append(f"{name}: {before} became {world.picture()}")
    if world.told() != told:
        wrong.append(f"{name}: another client was asked")
    return wrong


def _effects(world: World, before: object, told: int, answer: Frame) -> set[str]:
    found = set()
    if answer.code == 0 and (answer.body or answer.ext):
        found.add("shown")
    if world.picture() != before:
        found.add("state")
    if world.told() > told:
        found.add("asked")
    if answer.code not in (0, NO_PERMISSION):
        found.add("tried")
    if answer.code == 0 and not found:
        found.add("none")
    return found
