"""A run goes on when a worker dies, whichever test it dies at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import limit

ROOT = Path(__file__).parents[2]
#: Other plugins take longer to import than these tests take.
ONLY_XDIST = ("-p", "xdist.plugin", "-p", "no:cacheprovider")
CONFTEST = """
from tests.scheduling import ScopeScheduling

def pytest_xdist_make_scheduler(config, log):
    return ScopeScheduling(config, log)

def pytest_collection_finish(session):
    (session.config.rootpath / "collected").touch()
"""
WHOLE = "def test_whole(): pass\ndef test_again(): pass\n"
DEADLY = """
import os, pathlib, signal, time
import pytest

@pytest.mark.parametrize("n", range({tests}))
def test_deadly(n):
    pathlib.Path("ran").open("a").write(f"{{n}}\\n")
    if n == {dies_at}:
        while not pathlib.Path("quick").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
"""
AT_COLLECTION = """
import os, pathlib, signal, time

here = pathlib.Path(__file__).parent
if os.environ["PYTEST_XDIST_WORKER"] == "gw0":
    while not (here / "collected").exists():
        time.sleep(0.01)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
"""
NAMES_ITS_WORKER = """
import os, pathlib, time

def test_one(): pass

def test_two():
    worker = os.environ["PYTEST_XDIST_WORKER"]
    pathlib.Path("ran").open("a").write(worker + "\\n")
    time.sleep(0.2)
"""
QUICK = """
import pathlib

def test_quick(): pass
def test_quick_again(): pathlib.Path("quick").touch()
"""


@pytest.mark.parametrize(("tests", "dies_at"), [(1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (5, 1)])
def test_a_worker_that_dies_fails_one_test_and_the_run_ends(
    tmp_path: Path, tests: int, dies_at: int
) -> None:
    said = _run(tmp_path, tests, dies_at)
    ran = (tmp_path / "ran").read_text().split()
    assert sorted(ran) == [str(n) for n in range(tests)], said  # each once
    assert f"crashed while running 'test_b.py::test_deadly[{dies_at}]'" in said
    assert f"1 failed, {tests + 9} passed" in said


def test_a_later_worker_gets_more_than_one_file_of_one_test(tmp_path: Path) -> None:
    (tmp_path / "quick").touch()
    (tmp_path / "test_b.py").write_text(DEADLY.format(tests=2, dies_at=0))
    for name in ("test_c.py", "test_d.py", "test_e.py"):
        (tmp_path / name).write_text("def test_alone(): pass\n")
    said = _pytest(tmp_path, workers=1)
    assert "1 failed, 4 passed" in said


def test_workers_that_wait_for_one_that_collects_have_work_also_when_it_dies(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_a.py").write_text(AT_COLLECTION)
    for name in ("test_b.py", "test_c.py", "test_d.py", "test_e.py"):
        (tmp_path / name).write_text(NAMES_ITS_WORKER)
    said = _pytest(tmp_path, workers=2)
    assert "8 passed" in said
    assert set((tmp_path / "ran").read_text().split()) == {"gw1", "gw2"}, said


def _run(folder: Path, tests: int, dies_at: int) -> str:
    # One for each worker before test_b.py and test_c.py, and one for each to have in hand then.
    for name in ("test_a.py", "test_a_too.py", "test_d.py", "test_d_too.py"):
        (folder / name).write_text(WHOLE)
    (folder / "test_b.py").write_text(DEADLY.format(tests=tests, dies_at=dies_at))
    (folder / "test_c.py").write_text(QUICK)
    return _pytest(folder, workers=2)


def _pytest(folder: Path, workers: int) -> str:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    spread = (f"-n{workers}", "--dist=loadscope", "--no-loadscope-reorder")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *ONLY_XDIST, *spread, str(folder)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit(60),
        check=False,
    )
    return done.stdout
