"""The maker of the next file: once, by the first thread that comes, and what becomes of it."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commitlog.files.system import OS_FILES, File
from commitlog.segments.next_file import NextFile


class Counting:
    """The system's files; counts what is made, and fails or waits when told to."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.before: Callable[[], None] = lambda: None

    def create(self, path: Path, size: int, **options: Any) -> File:
        self.before()
        self.made.append(path.name)
        return OS_FILES.create(path, size, **options)


def maker(files: Counting, root: Path) -> NextFile:
    return NextFile(files, root / "log", 64, staging=root / "staging")  # type: ignore[arg-type]


def test_a_file_begun_ahead_is_taken_and_made_once(tmp_path: Path) -> None:
    files = Counting()
    following = maker(files, tmp_path)
    task = following.begin(64)
    assert following.begin(64) is task
    task.run()
    task.run()
    file = following.take(64)
    assert file.path == following.path(64)
    assert (files.made, following.is_begun) == ([f"{64:020}"], False)
    file.close()


def test_a_writer_waits_for_the_helper_that_makes_its_file(tmp_path: Path) -> None:
    files, begun, go = Counting(), threading.Event(), threading.Event()
    files.before = lambda: (begun.set(), go.wait())[0]
    following = maker(files, tmp_path)
    helper = threading.Thread(target=following.begin(0).run)
    helper.start()
    begun.wait()
    taken: list[File] = []
    writer = threading.Thread(target=lambda: taken.append(following.take(0)))
    writer.start()
    go.set()
    helper.join()
    writer.join()
    assert files.made == [f"{0:020}"]
    taken[0].close()


def test_a_full_disk_is_met_by_the_writer_who_can_try_again(tmp_path: Path) -> None:
    files = Counting()
    following = maker(files, tmp_path)

    def full() -> None:
        raise OSError(errno.ENOSPC, "no space")

    files.before = full
    task = following.begin(0)
    for call in (task.run, lambda: following.take(0)):
        with pytest.raises(OSError, match="no space"):
            call()
    files.before = lambda: None
    following.take(0).close()
    assert files.made == [f"{0:020}"]


def test_a_dropped_file_is_the_callers_and_one_not_made_yet_never_is(tmp_path: Path) -> None:
    files = Counting()
    following = maker(files, tmp_path)
    assert following.drop() is None
    following.begin(0).run()
    file = following.drop()
    assert file is not None
    file.close()
    task = following.begin(64)
    assert following.drop() is None
    task.run()
    assert files.made == [f"{0:020}"]


def test_a_file_at_another_place_than_the_begun_one_is_a_mistake(tmp_path: Path) -> None:
    following = maker(Counting(), tmp_path)
    task = following.begin(0)
    with pytest.raises(AssertionError, match="one after the other"):
        following.take(64)
    assert task.file is not None
    task.file.close()
