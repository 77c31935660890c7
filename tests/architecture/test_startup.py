"""What starting loads: `dledger --help` must answer at once, a client must be light to import."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

from tests.waiting import limit

from .source_tree import PACKAGES, ROOT

# The list that start-up may import. A new name here costs every command its import time.
THIRD_PARTY_OF_HELP = {"click"}
OWN_MODULES_OF_HELP = {
    *("cluster", "cluster.cli", "cluster.commands", "cluster.commands.registry"),
    *("chaos", "chaos.cli"),
    *("pipeline", "pipeline.cli"),
}

_PRINT_MODULES = "import sys, json; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=limit(60)
    )


def loaded(code: str) -> set[str]:
    """Modules loaded by `code` beyond those of a bare interpreter."""
    result = run("-c", f"import atexit\natexit.register(lambda: exec({_PRINT_MODULES!r}))\n{code}")
    bare = run("-c", _PRINT_MODULES)
    lines = result.stderr.strip().splitlines()
    assert lines, result
    return set(json.loads(lines[-1])) - set(json.loads(bare.stderr))


def third_party(modules: set[str]) -> set[str]:
    tops = {name.partition(".")[0] for name in modules}
    known = sys.stdlib_module_names | set(PACKAGES)
    return {name for name in tops if name not in known and not name.startswith("_")}


def test_help_loads_only_click_and_the_command_table() -> None:
    modules = loaded(
        "import sys; sys.argv = ['dledger', '--help']\nfrom cluster.cli import main\nmain()"
    )
    assert third_party(modules) <= THIRD_PARTY_OF_HELP, third_party(modules)
    own = {name for name in modules if name.partition(".")[0] in PACKAGES}
    assert own <= OWN_MODULES_OF_HELP, own - OWN_MODULES_OF_HELP
    assert not modules & {"asyncio", "ssl", "sqlite3", "multiprocessing"}


def test_help_is_quick() -> None:
    """≤ 0.3 s of processor time, which other tests beside this one do not change; best of five."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = run("-m", "cluster.cli", "--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert result.returncode == 0, result.stderr
    assert min(times) <= 0.3, times


@pytest.mark.parametrize("module", ["cluster", "cluster.client"])
def test_a_client_is_light(module: str) -> None:
    heavy = {"aiohttp", "rich", "click", "structlog", "numpy", "psutil", "prometheus_client"}
    assert not third_party(loaded(f"import {module}")) & heavy


def test_start_without_assertions_is_refused() -> None:
    result = run("-O", "-m", "cluster.cli", "ps")
    assert result.returncode == 2
    assert "without -O" in result.stderr
