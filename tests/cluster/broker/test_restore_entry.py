"""A restored cluster's audit log has one entry of the restore, whichever node leads, when."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.broker.access.audit import restored
from cluster.broker.access.audit.reading import Piece
from cluster.broker.access.audit.restored import NOTE
from cluster.core.audit.entry import Audited, AuditEntry
from commitlog.files.system import OS_FILES
from dledger.core.types import NodeId
from tests.waiting import eventually

from .access_world import new_topic
from .conftest import MakeBrokers
from .harness import Brokers, until
from .test_accounts import asked
from .test_audit import entries, said

RESTORED: dict[str, Any] = {
    "id": "0badcafe-17",
    "target": "backup nightly",
    "command": "dledger restore nightly --yes",
    "by": "ops@host",
    "to_index": 17,
    "last_ms": 0,
}


def leave(brokers: Brokers, number: int, note: Any = RESTORED) -> Path:
    """A note in the folder of a node that is not running."""
    path = Path(brokers.config(number).root) / NOTE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(note if isinstance(note, str) else json.dumps(note))
    return path


async def rows(brokers: Brokers) -> list[dict[str, Any]]:
    client = await brokers.client(await brokers.leader())
    try:
        return await entries(client)
    finally:
        client.close()


async def test_the_first_leader_writes_it_and_later_ones_find_it(
    make_brokers: MakeBrokers,
) -> None:
    async with make_brokers(3) as brokers:
        for number in range(3):
            await brokers.stop_node(number)
        notes = [leave(brokers, number) for number in range(3)]
        for number in range(3):
            await brokers.start_node(number)
        found = await until_told(brokers)
        assert found[-1]["parameters"] == {"id": "0badcafe-17", "to_index": 17, "last_ms": 0}
        assert (found[-1]["by"], found[-1]["via"]) == ("ops@host", "cli")
        assert found[-1]["command"] == "dledger restore nightly --yes"
        led: set[str] = set()
        while len(led) < 3:
            leader = await brokers.leader()
            led.add(leader.config.node_id)
            number = brokers.nodes.index(leader)
            await until(lambda number=number: not notes[number].exists(), "its note is removed")
            client = await brokers.client(leader)
            assert (await asked(client, 17, new_topic(f"of-{leader.config.node_id}"))).code == 0
            client.close()
            others = [name for name in ("n0", "n1", "n2") if name not in led]
            if others:
                moved: list[Any] = []
                leader.parts.admin_ports.log.transfer(NodeId(others[0]), moved.append)
                await until(lambda moved=moved: moved, "the lead has moved")
                assert moved == [None]
        assert [row[:2] for row in said(await rows(brokers))].count(
            ("restore", "backup nightly")
        ) == 1


async def until_told(brokers: Brokers) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def told() -> bool:
        found[:] = await rows(brokers)
        return any(row["verb"] == "restore" for row in found)

    await eventually(told, "the entry of the restore", pause=0.05)
    return found


async def test_a_second_restore_has_an_entry_of_its_own(make_brokers: MakeBrokers) -> None:
    async with make_brokers(1) as brokers:
        for again in ("1", "2"):
            await brokers.stop_node(0)
            leave(brokers, 0, {**RESTORED, "id": again})
            await brokers.start_node(0)

            async def told(again: str = again) -> bool:
                found = await rows(brokers)
                return bool(found) and found[0]["parameters"].get("id") == again

            await eventually(told, "its entry", pause=0.05)
        assert len(await rows(brokers)) == 2


@pytest.mark.parametrize("note", ["{", "[]", "{}", '{"id":"1","to_index":1,"last_ms":""}'])
async def test_a_note_that_cannot_be_read_stops_nothing(
    make_brokers: MakeBrokers, note: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_brokers(1) as brokers:
        await brokers.stop_node(0)
        leave(brokers, 0, note)
        with caplog.at_level(logging.CRITICAL):
            await brokers.start_node(0)
        client = await brokers.client(await brokers.leader())
        assert (await asked(client, 17, new_topic("orders"))).code == 0
        assert said(await entries(client)) == [("topic create", "topic orders", "done")]


def a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, *found: tuple[str, int]
) -> tuple[list[AuditEntry], Path]:
    """What a new leader writes, whose log begins at `first` and has these restores (id, time)."""
    path, written = tmp_path / NOTE, list[AuditEntry]()
    path.write_text(json.dumps({**RESTORED, "last_ms": 5 * restored.CLOCKS_APART_MS}))
    known = [
        Audited(number, at_ms, AuditEntry("restore", "", parameters={"id": one}))
        for number, (one, at_ms) in enumerate(found)
    ]
    monkeypatch.setattr(restored, "older", lambda *_: iter([Piece(known)]))

    def write(entry: AuditEntry, done: Any) -> None:
        written.append(entry)
        path.unlink()  # by hand, say
        done(None)

    ports: Any = SimpleNamespace(
        leadership=SimpleNamespace(leads=True, term=2),
        owned=SimpleNamespace(call_soon=lambda step, *of: step(*of)),
        log=SimpleNamespace(store=SimpleNamespace(first_index=first)),
        config=SimpleNamespace(node_id="n0"),
        derived=None,
        reader=None,
    )
    trail: Any = SimpleNamespace(write=write)
    restored.RestoreNote(ports, trail, OS_FILES, tmp_path).look()
    return written, path


def test_one_that_leads_when_the_entry_has_gone_writes_no_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, path = a_look(tmp_path, monkeypatch, RESTORED["to_index"] + 1)
    assert (written, path.exists()) == ([], False)


def test_a_clock_that_is_behind_hides_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = restored.CLOCKS_APART_MS
    found = (("other", 5 * day - 2), (RESTORED["id"], 5 * day - 3))
    written, path = a_look(tmp_path, monkeypatch, 0, *found)
    assert (written, path.exists()) == ([], False)


def test_a_note_that_is_gone_already_stops_no_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, path = a_look(tmp_path, monkeypatch, 0, ("other", 0))
    assert ([one.verb for one in written], path.exists()) == (["restore"], False)
