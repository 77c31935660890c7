"""Nodes of the former release and of this one in a group, under load: up, back, and the mark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.core.feature_level import LEVEL as LEVEL_HERE
from tests.integration.former import BELOW, NEWEST, Former, Release, former_release
from tests.integration.loaded_group import (
    NEW,
    NODES,
    OWN_LATER,
    STOCK_LATER,
    WRITER,
    Group,
    Today,
    loaded,
)
from tests.waiting import eventually


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", sorted({BELOW, NEWEST}), ids=lambda release: release.version)
async def test_up_and_back_and_up_again_under_load(
    tmp_path: Path, new_address: Callable[[], str], release: Release
) -> None:
    """The newest release, and the newest one that does not understand this feature level."""
    former, today = former_release(tmp_path, release), Today()
    async with loaded(tmp_path, new_address, former) as group:
        rotate = ["account", "alter", WRITER, "--keep-old", "--secret-file"]
        newer = tmp_path / "newer"
        newer.write_text(NEW)
        for name in NODES[:2]:
            await group.restart(name, today)
        await group.lead("n0")  # one of a lower level knows nothing of what is asked
        if release.level < LEVEL_HERE:
            code, said = await group.said(*rotate, str(newer))
            assert code != 0
            assert "need every member at feature level 3, and n2 did not say so" in said
        await group.restart("n2", today)
        for name in NODES:  # what this release wrote is opened by the former one
            await group.restart(name, former)
        for name in NODES:
            await group.restart(name, today)

        async def rotated() -> bool:
            return (await group.said(*rotate, str(newer)))[0] == 0

        await eventually(rotated, "every member says its level", pause=0.5)
        await group.more("with two secrets")
        if release.level < LEVEL_HERE:
            await refuses(group, former, release, "n1")
        else:
            await group.restart("n1", former)
            await group.more("with a former node behind the mark")
            await group.restart("n1", today)
        await group.begin(NEW, OWN_LATER, STOCK_LATER)


async def refuses(group: Group, former: Former, release: Release, name: str) -> None:
    """A release of a lower level refuses to go on behind the mark, says why; nothing is lost."""
    assert await asyncio.to_thread(group.nodes.stop, name) == 0
    before = len(group.nodes.log(name))
    former.run(group.nodes, name)
    said = (await asyncio.to_thread(group.nodes.fails, name))[before:]
    assert f"is at feature level 3 and this version understands {release.level}" in said
    assert "; upgrade this node" in said
    await group.more(f"without {name}")
    group.nodes.run(name)
    await asyncio.to_thread(group.nodes.serves, name)
    await group.more(f"with {name} again")
