"""What of a limited memory strangers get."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from cluster.limits import memory_limit
from cluster.limits.memory_limit import cgroup_limit, strangers_share
from cluster.limits.partial_frames import PartialFrames
from cluster.protocol.frames import FRAME_SIZE_MAX

MB = 1_000_000


class Connection:
    address = "127.0.0.1:1"

    def __init__(self) -> None:
        self.cut = False

    def abort(self) -> None:
        self.cut = True


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 MB of RLIMIT_DATA, as this process sees it."""

    def limits(which: int) -> tuple[int, int]:
        found = 300 * MB if which == resource.RLIMIT_DATA else resource.RLIM_INFINITY
        return found, found

    monkeypatch.setattr(memory_limit.resource, "getrlimit", limits)
    monkeypatch.setattr(memory_limit, "cgroup_limit", lambda: -1)


@pytest.mark.usefixtures("limited")
def test_a_limit_leaves_strangers_a_sixteenth_but_one_frame() -> None:
    assert memory_limit.memory_limit() == 300 * MB
    assert strangers_share(64 * MB, MB) == 300 * MB // 16
    assert strangers_share(64 * MB, 20 * MB) == 20 * MB
    assert strangers_share(10 * MB, MB) == 10 * MB


@pytest.mark.usefixtures("limited")
def test_frames_that_do_not_come_whole_take_less_where_memory_is_limited() -> None:
    frames, first, second = PartialFrames(), Connection(), Connection()
    frames.holds(first, FRAME_SIZE_MAX, began=False)
    assert not first.cut, "the largest frame may always come"
    frames.holds(second, 3 * MB, began=False)
    assert first.cut
    assert not second.cut


@pytest.mark.parametrize(
    ("lines", "files", "limit"),
    [
        (["0::/a/b"], {"a/memory.max": "300000000", "a/b/memory.max": "max"}, 300 * MB),
        (["0::/a/b"], {"memory.max": "200000000"}, 200 * MB),
        (["0::/a"], {"a/memory.max": "max"}, -1),
        (
            ["4:memory:/x", "0::/"],
            {
                "memory/x/memory.limit_in_bytes": "300000000",
                "memory/memory.limit_in_bytes": "9" * 19,
            },
            300 * MB,
        ),
        (["3:cpu,cpuacct:/x"], {"memory/x/memory.limit_in_bytes": "300000000"}, -1),
        ([], {}, -1),
    ],
    ids=["v2", "v2-root", "v2-none", "v1", "v1-other", "none"],
)
def test_the_limit_of_a_cgroup(
    tmp_path: Path, lines: list[str], files: dict[str, str], limit: int
) -> None:
    proc, root = tmp_path / "cgroup", tmp_path / "fs"
    proc.write_text("\n".join(lines))
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    assert cgroup_limit(proc, root) == limit
    assert cgroup_limit(tmp_path / "missing", root) == -1
