"""Every byte of a node's files flipped, one at a time, while it is down or while it runs.

Each is found or harmless, none is served, the files are mended from the peers, and nothing that
was acknowledged is lost. The long suite flips every byte, the short one some.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dledger.durable import flush_mark, hard_state, truncate_intent
from tests.dledger.file_group import FOLDER, FileGroup, FileHost, filled, until_whole


def strides(short: int, long: int) -> pytest.MarkDecorator:
    """Every `short`-th byte in the short suite, every `long`-th in the long one."""
    return pytest.mark.parametrize("stride", [short, pytest.param(long, marks=pytest.mark.long)])


#: Of a slot of a small file: its head, its payload and some of the zeros behind.
SLOT_BYTES = 96
SLOT_STARTS = (0, 4096)


def log_bytes(host: FileHost) -> list[tuple[Path, int]]:
    """Every byte of the log's records and slots."""
    assert host.storage is not None
    log = host.storage.log
    places = []
    for folder, end in (("data", log.end_position), ("index", 32 * (log.last.index + 1))):
        for name in host.disk.list(FOLDER / folder):
            size = len(host.disk.read(FOLDER / folder / name))
            within = range(max(0, min(size, end - int(name))))
            places += [(FOLDER / folder / name, at) for at in within]
    return places


def small_bytes() -> Iterator[tuple[Path, int]]:
    for name in (hard_state.FILE_NAME, flush_mark.FILE_NAME, truncate_intent.FILE_NAME):
        for start in SLOT_STARTS:
            yield from ((FOLDER / name, start + at) for at in range(SLOT_BYTES))


@strides(29, 1)
@pytest.mark.parametrize("stopped", [True, False], ids=["cleanly", "killed"])
def test_bytes_that_rot_while_a_node_is_down(stopped: bool, stride: int) -> None:
    group, victim = filled()
    files = group.files(victim.name)
    for number, (path, at) in enumerate([*log_bytes(victim), *small_bytes()]):
        if number % stride != (0 if stopped else stride // 2):
            continue
        if stopped:
            victim.stop()
        else:
            victim.kill()
        victim.disk.flip(path, at, 1 << number % 8)
        victim.boot()
        until_whole(group, victim, files)
    group.fill(1)


@strides(29, 1)
def test_bytes_that_rot_while_a_node_runs(stride: int) -> None:
    group, victim = filled()
    files = group.files(victim.name)
    for number, (path, at) in enumerate(log_bytes(victim)):
        if number % stride:
            continue
        victim.disk.flip(path, at, 1 << number % 8)
        until_whole(group, victim, files)
    group.fill(1)


@strides(47, 5)
def test_a_node_alone_refuses_what_it_cannot_undo(stride: int) -> None:
    """No peer has it: the entry is not served, not taken for the end, and the rest is served."""
    for number in range(0, len(log_bytes(alone())), stride):
        host = alone()
        wanted = dict(host.applied)
        path, at = log_bytes(host)[number]
        host.stop()
        host.disk.flip(path, at, 1 << number % 8)
        host.boot()
        host.group.run(1.5)
        assert all(body == wanted.get(index, body) for index, body in host.applied.items())
        assert host.storage is not None
        assert host.storage.log.last.index >= max(wanted)
        assert host.replica.failure is None
        assert host.replica.repair is not None
        refused = host.replica.repair.status().refused
        assert bool(refused) is (path.parent.name == "data")
        host.stop()
        if refused:
            host.disk.flip(path, at, 1 << number % 8)
        host.boot()
        host.group.run(1.5)
        assert wanted.items() <= host.applied.items()


def alone() -> FileHost:
    group = FileGroup(1)
    group.elect()
    group.fill(5)
    return group["n0"]
