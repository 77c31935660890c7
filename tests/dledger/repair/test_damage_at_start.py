"""Damage that a start meets: the node starts all the same, and is mended from its peers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from commitlog.errors import StoreDamaged, StoreLayoutError
from dledger.core.types import Index, Role
from dledger.errors import DledgerError, LogDamaged
from tests.dledger.file_group import FOLDER, FileGroup, FileHost, filled, until_whole

#: In a header: bytes of the record's size and of its body's. With both wrong its end is unknown.
BOTH_SIZES = (6, 46)


def lose_index(host: FileHost) -> None:
    """Every index file is gone."""
    for name in host.disk.list(FOLDER / "index"):
        host.disk.lose(FOLDER / "index" / name)


def of_two_terms() -> tuple[FileGroup, FileHost]:
    """A group whose log has entries of two terms, and a follower of it."""
    group = FileGroup()
    first = group.elect()
    group.fill(4)
    outcome: list[DledgerError | None] = []
    first.replica.transfer(None, outcome.append, group.now)
    group.run(1.0)
    assert outcome == [None]
    group.fill(4)
    return group, next(h for h in group.hosts.values() if h is not group.leader)


def of_many_files() -> tuple[FileGroup, FileHost]:
    """A group whose log has four files, and a follower of it."""
    group, victim = filled()
    group.fill(8)
    assert len([name for name in group.files(victim.name) if name.startswith("data/")]) == 4
    return group, victim


def record_bytes(host: FileHost, index: int) -> Iterator[int]:
    """Offsets in the record of an entry: all of the header, some of the body."""
    assert host.storage is not None
    position = host.storage.log.position_of(Index(index))
    size = host.storage.log.position_of(Index(index + 1)) - position
    yield from range(48)
    yield from range(48, min(size, 200), 50)


@pytest.mark.parametrize(
    ("index", "stride"),
    [(0, 3), (3, 7), (5, 7), pytest.param(4, 1, marks=pytest.mark.long)],
    ids=["first", "middle", "new-term", "every-byte"],
)
def test_a_record_that_rots_while_its_slot_is_gone(index: int, stride: int) -> None:
    """Its end and term are proven by the chain, whichever byte it is; only it is asked for."""
    group, victim = of_two_terms()
    files = group.files(victim.name)
    for number, at in enumerate(record_bytes(victim, index)):
        if number % stride:
            continue
        group.rot(victim.name, index, at, 1 << number % 8)
        victim.stop()
        lose_index(victim)
        victim.boot()
        assert victim.replica.repair is not None
        damaged = victim.replica.repair.status().damaged
        assert [(d.first, d.last) for d in damaged] == [(index, index)], at
        until_whole(group, victim, files)
    group.fill(1)


def test_records_in_a_row_that_rot_while_their_slots_are_gone() -> None:
    """Where the next whole one begins is found in the bytes; the damaged ones keep their term."""
    group, victim = filled()
    files = group.files(victim.name)
    places = []
    for index in (3, 4):
        path, offset = group.place(victim.name, index)
        places += [(path, offset + at) for at in BOTH_SIZES]
    victim.stop()
    for path, at in places:
        victim.disk.flip(path, at)
    lose_index(victim)
    group.cut = {victim.name}
    victim.boot()
    assert victim.replica.repair is not None
    damaged = victim.replica.repair.status().damaged
    assert [(d.first, d.last) for d in damaged] == [(3, 5)]
    group.run(2.0)
    assert victim.replica.node.role is Role.FOLLOWER, "a damaged node does not stand"
    group.cut = set()
    until_whole(group, victim, files)


def test_an_entry_whose_term_nobody_tells_ends_the_start() -> None:
    """Of term 1 or of term 2? A wrong guess might truncate what was acknowledged (S2)."""
    group, victim = of_two_terms()
    assert victim.storage is not None
    runs = victim.storage.log.term_runs()
    index = runs[0].last
    path, offset = group.place(victim.name, index)
    other, behind = group.place(victim.name, Index(index + 1))
    victim.stop()
    for at in BOTH_SIZES:
        victim.disk.flip(path, offset + at)
        victim.disk.flip(other, behind + at)
    lose_index(victim)
    before = group.files(victim.name)
    with pytest.raises(StoreDamaged):
        victim.boot()
    assert {n: d for n, d in group.files(victim.name).items() if n[:4] == "data"} == before


@pytest.mark.parametrize("stopped", [True, False], ids=["cleanly", "killed"])
@pytest.mark.parametrize("lost", [(0,), (1,), (2,), (3,), (1, 2), (0, 1, 2, 3)], ids=str)
def test_data_files_that_are_gone_come_back_from_peers(
    lost: tuple[int, ...], stopped: bool
) -> None:
    """The first, one in the middle, the last, all: noted before the node takes part."""
    group, victim = of_many_files()
    files = group.files(victim.name)
    if stopped:
        victim.stop()
    else:
        victim.kill()
    for number in lost:
        victim.disk.lose(
            FOLDER / "data" / victim.disk.list(FOLDER / "data")[number - lost.index(number)]
        )
    group.cut = {victim.name}
    victim.boot()
    assert victim.replica.repair is not None
    damaged = victim.replica.repair.status().damaged
    assert damaged
    assert all("was gone" in damage.reason for damage in damaged)
    group.run(1.5)
    assert victim.replica.node.role is Role.FOLLOWER, "a damaged node does not stand"
    group.cut = set()
    until_whole(group, victim, files)
    group.fill(1)


def test_what_was_gone_is_not_forgotten_by_the_next_start() -> None:
    """Killed before it was mended: the node knows at once, and forgets when the files are whole."""
    group, victim = of_many_files()
    files = group.files(victim.name)
    victim.kill()
    victim.disk.lose(FOLDER / "data" / victim.disk.list(FOLDER / "data")[1])
    group.cut = {victim.name}
    for _ in range(2):
        victim.boot()
        assert victim.replica.repair is not None
        assert victim.replica.repair.status().damaged
        victim.kill()
    group.cut = set()
    victim.boot()
    until_whole(group, victim, files)
    assert victim.disk.exists(FOLDER / "gone")
    victim.kill()
    victim.boot()
    assert not victim.disk.exists(FOLDER / "gone")
    until_whole(group, victim, files)


def test_what_was_gone_is_forgotten_when_it_is_on_disk_again() -> None:
    """R3: killed before the sync of what had come back; the next start sees it whole."""
    group, victim = of_many_files()
    path = FOLDER / "data" / victim.disk.list(FOLDER / "data")[1]
    content = victim.disk.read(path)
    victim.kill()
    victim.disk.lose(path)
    group.cut = {victim.name}
    victim.boot()
    victim.disk.open(path).pwrite(content, 0)
    victim.kill()
    victim.boot()
    assert not victim.disk.exists(FOLDER / "gone")
    victim.kill()
    victim.disk.crash(keep=0.0)
    assert victim.disk.read(path) == content


def test_a_data_file_and_the_index_that_are_gone_come_back_from_peers() -> None:
    """What is behind the gap is found by its own bytes."""
    group, victim = of_many_files()
    files = group.files(victim.name)
    victim.stop()
    victim.disk.lose(FOLDER / "data" / victim.disk.list(FOLDER / "data")[1])
    lose_index(victim)
    victim.boot()
    until_whole(group, victim, files)


def test_what_nobody_has_any_more_is_refused_and_the_rest_is_served() -> None:
    """The same file is gone everywhere: the range is refused, the group goes on."""
    group, _ = of_many_files()
    hosts = list(group.hosts.values())
    first = [host.storage.log.first_index for host in hosts if host.storage is not None]
    for host in hosts:
        host.stop()
        host.disk.lose(FOLDER / "data" / host.disk.list(FOLDER / "data")[1])
    for host in hosts:
        host.boot()
    group.run(8.0)
    assert group.leader in hosts, "they elect one of them, and the rest of the log is served"
    for host in hosts:
        assert host.replica.repair is not None
        (refused,) = host.replica.repair.status().refused
        assert host.storage is not None
        assert bytes(host.storage.log.entry(first[0]).body)
        with pytest.raises(StoreDamaged):
            host.storage.log.entry(refused.first)


@pytest.mark.parametrize("number", [0, -1], ids=["first", "last"])
def test_a_log_whose_first_or_last_place_is_unknown_does_not_start(number: int) -> None:
    """That file and every slot are gone: nothing says where the log began or ended; none is made.

    A log whose note about its beginning is lost must not be given all the files it ever had.
    """
    _, victim = of_many_files()
    victim.stop()
    names = victim.disk.list(FOLDER / "data")
    victim.disk.lose(FOLDER / "data" / names.pop(number))
    lose_index(victim)
    with pytest.raises(LogDamaged, match=r"outside the files|does not begin the log"):
        victim.boot()
    assert victim.disk.list(FOLDER / "data") == names


def test_a_node_alone_does_not_make_files_again() -> None:
    """Nobody has what was in them: an operator may still have the file, and nothing is touched."""
    group = FileGroup(1)
    group.elect()
    group.fill(12)
    host = group["n0"]
    host.stop()
    names = host.disk.list(FOLDER / "data")
    host.disk.lose(FOLDER / "data" / names.pop(1))
    with pytest.raises(StoreLayoutError, match="restore the missing file"):
        host.boot()
    assert host.disk.list(FOLDER / "data") == names
