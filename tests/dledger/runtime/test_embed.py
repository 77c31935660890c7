"""*Embed it* of the README is a whole program: three nodes or one, new or not, little disk."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.waiting import limit, wait_until

ROOT = Path(__file__).parents[3]
NAMES = ("n0", "n1", "n2")
DISK_MAX = 20_000_000  # bytes, of all three nodes together


@pytest.fixture
def program(tmp_path: Path, new_address: Callable[[], str]) -> Path:
    """The block below "Embed it" as it is printed, but for an address of this test's own."""
    section = (ROOT / "README.md").read_text("utf-8").partition("## Embed it\n")[2]
    found = re.search(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    assert found is not None
    file = tmp_path / "embed.py"
    file.write_text(found[1].replace("127.0.0.1", new_address()), "utf-8")
    return file


@contextmanager
def running(program: Path, names: Sequence[str], output: Path) -> Iterator[None]:
    """Runs it until the block ends, then ends it as Ctrl-C does, and looks at how it ended."""
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(program), *names],
            cwd=program.parent,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={"PYTHONPATH": str(ROOT)},
            # What a background shell starts ignores the signal that this test ends it by.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        try:
            yield
            process.send_signal(signal.SIGINT)
            assert process.wait(limit(30)) == 0, output.read_text("utf-8")
        finally:
            process.kill()
            process.wait()


def lines_of(output: Path, name: str) -> list[str]:
    """Entries that a node has printed: index, term and body."""
    lines = output.read_text("utf-8").splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]


def allocated(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))


def test_it_runs_three_nodes_and_again_on_what_they_wrote(program: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with running(program, (), first):
        wait_until(lambda: all(lines_of(first, name) for name in NAMES), "every node has a hello")
    hello = lines_of(first, "n0")[0]
    assert "b'hello from n" in hello
    assert {lines_of(first, name)[0] for name in NAMES} == {hello}
    assert allocated(tmp_path / "data") < DISK_MAX
    with running(program, (), second):
        wait_until(lambda: all(lines_of(second, name) for name in NAMES), "it is read again")
    assert {lines_of(second, name)[0] for name in NAMES} == {hello}


def test_it_runs_one_node_in_each_of_three_processes(program: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        for name in NAMES:
            stack.enter_context(running(program, (name,), tmp_path / name))
        wait_until(
            lambda: all(lines_of(tmp_path / name, name) for name in NAMES),
            "every node has a hello",
        )
    assert len({lines_of(tmp_path / name, name)[0] for name in NAMES}) == 1
