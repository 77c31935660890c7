"""Shared by all tests: the rule on skips in CI, addresses per test, clusters.

`local_cluster` is a running cluster of three that a worker's tests share and must leave whole;
`make_cluster` makes one that may be broken. When a test that used either fails, the last lines of
every node's log are in the report.

Skips: a reason that starts with "needs " names a part that CI can install, so there it is a
failure; a reason that starts with "not here: " names what the machine cannot have.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import pytest_timeout

from cluster.local import launcher, plan, processes, stories
from cluster.local.launcher import LocalCluster
from dledger.runtime.loop import collect_seldom, loop_factory
from tests import command_line
from tests.scheduling import ScopeScheduling
from tests.suite_order import in_order
from tests.virtual_loop import SteadyLoop, VirtualLoop
from tests.waiting import RAFT_TIMINGS, limit

if TYPE_CHECKING:
    from xdist.remote import Producer

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")
pytest_plugins = ("tests.cpu_report", "tests.layer_report")
_IN_CI = os.environ.get("CI") == "true"
_hosts = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    collect_seldom()  # as the programs do: else workers spend a fiftieth of their time in it
    launcher.READY_SECONDS_MAX = limit(60)
    processes.STOP_SECONDS_MAX = limit(30)
    processes.spawn = command_line.spawn_with({})
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As shells have it for what they start in the background: programs that tests start would
        # inherit it and hear no Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "long: a long layer, run by scripts/test --long only")
    config.addinivalue_line("markers", "alone: of the long ones, those that nothing may run beside")
    config.addinivalue_line("markers", "soak: of the long ones, those that others run beside")
    config.addinivalue_line("markers", "virtual_time: async, on a clock that jumps and no sockets")
    config.addinivalue_line("markers", "both_loops: async, on asyncio's loop and on uvloop")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: it is not looked through for garbage, then or later.

    A fifth of the time that a worker takes to collect all tests, and 0.3 s of each full collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without -m and without being named, long tests are left out; workers have an order."""
    if hasattr(config, "workerinput"):
        files = in_order(list(dict.fromkeys(map(_file, items))))
        places = {name: at for at, name in enumerate(files)}
        items.sort(key=lambda item: places[_file(item)])
    if config.getoption("-m") or any("::" in argument for argument in config.args):
        return
    long = [item for item in items if "long" in item.keywords]
    items[:] = [item for item in items if "long" not in item.keywords]
    config.hook.pytest_deselected(items=long)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ScopeScheduling | None:
    """Workers take whole files (scheduling.py)."""
    return ScopeScheduling(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture
def numpy_loaded() -> Iterator[None]:
    """As in a node, whatever other tests of this process have done."""
    from commitlog.records import accel

    before = accel.is_loaded()
    assert accel.load()
    yield
    if not before:
        accel.unload()


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """One loop for each async test (virtual_loop.py); `both_loops`: another run on uvloop."""
    if item.get_closest_marker("virtual_time") is not None:
        return {"loop": VirtualLoop}
    of_nodes = loop_factory() if item.get_closest_marker("both_loops") else None
    return {"loop": SteadyLoop} | ({} if of_nodes is None else {"uvloop": of_nodes})


def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> bool:
    """A test's limit, from pyproject.toml or its mark, is scaled like every other limit."""
    scaled = settings._replace(timeout=limit(settings.timeout))
    done: bool = pytest_timeout.pytest_timeout_set_timer(item, scaled)
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    reason = str(call.excinfo.value) if report.skipped and call.excinfo else ""
    if _IN_CI and reason.removeprefix("Skipped: ").startswith("needs "):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped in CI, which can install it: {reason}"
    if report.failed:
        for cluster in _clusters:
            for member in cluster.profile.members:
                tail = processes.log_tail(cluster.folder(member.name))
                report.sections.append((f"log of {cluster.root}/{member.name}", tail[-3000:]))
    return report


#: What a module's tests may leave open in all: things that a worker keeps for its session.
DESCRIPTORS_LEFT_MAX = 64


@pytest.fixture(scope="module", autouse=True)
def _descriptors_are_given_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """A worker runs thousands of tests in one process: what each leaves open adds up, until another
    test fails that has nothing to do with it.
    """
    before = _open_descriptors()
    yield
    if _open_descriptors() > before + DESCRIPTORS_LEFT_MAX:
        gc.collect()  # what only a circle of references holds is given back
    left = _open_descriptors() - before
    assert left <= DESCRIPTORS_LEFT_MAX, (
        f"tests of {request.node.nodeid} leave {left} descriptors open; close what they make"
    )


#: How threads are called that a process keeps for all that comes: an event loop for blocking
#: clients, idle workers of a loop's executor, the thread that gives deleted files back.
THREADS_KEPT = ("dledger-client", "asyncio_", "uvloop_", "gone-files")


@pytest.fixture(scope="module", autouse=True)
def _threads_are_ended() -> Iterator[None]:
    """A thread that goes on works beside tests of other modules, which it may make fail: one that
    draws a random number does so when Hypothesis looks at the generator's state.
    """
    before = set(threading.enumerate())
    yield
    if "py4j" in sys.modules:  # Spark's link to its JVM has threads as it needs them
        return
    ends = time.monotonic() + limit(10)
    for thread in set(threading.enumerate()) - before:
        if not thread.name.startswith(THREADS_KEPT):
            thread.join(max(0.0, ends - time.monotonic()))
            assert not thread.is_alive(), f"{thread.name} is still there; end it in its test"


def _open_descriptors() -> int:
    folder = Path("/proc/self/fd")
    return sum(1 for _ in folder.iterdir()) if folder.exists() else 0


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A new folder on the disk, also where other tests' files are in memory (scratch.py)."""
    where = os.environ.get("DLEDGER_TEST_DISK")
    with tempfile.TemporaryDirectory(prefix="dledger-", dir=where) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def worker_number() -> int:
    """0 for a run without workers, else 1, 2, ... for xdist's gw0, gw1, ..."""
    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    return int(name.removeprefix("gw")) + 1 if name else 0


@pytest.fixture(scope="session")
def new_address(worker_number: int) -> Callable[[], str]:
    """Call it for an address of 127/8 that no other test and no other worker uses.

    The second byte tells runs apart that share the machine: `scripts/test` holds one for its tests
    (scripts/layers/machine.py), and a pytest that is started by hand takes one by its process, from
    a range of its own; up to eight workers have one. Fixed ports below 32768 are safe on such an
    address.
    """
    by_hand = 216 + (os.getppid() if worker_number else os.getpid()) % 34
    run = int(os.environ.get("DLEDGER_TEST_ADDRESSES", by_hand))

    def address() -> str:
        number = next(_hosts)
        return f"127.{run}.{worker_number * 30 + number // 250}.{1 + number % 250}"

    return address


@pytest.fixture
def free_address(new_address: Callable[[], str]) -> str:
    """An address of 127/8 for this test alone."""
    return new_address()


# Small files: many clusters are made on one disk; the log rolls over soon, which tests that too.
SMALL_FILES = RAFT_TIMINGS | {
    "raft.data_file_size": str(16 << 20),
    "raft.index_file_size": str(4 << 20),
    "broker.index_slot_count": "10000",
    "broker.index_entry_count": "40000",
}
# Running clusters of this worker, for the report of a failure.
_clusters: list[LocalCluster] = []
MakeCluster = Callable[..., LocalCluster]


@contextlib.contextmanager
def running_cluster(
    root: Path, hosts: Sequence[str], settings: Mapping[str, str], groups: int = 1
) -> Iterator[LocalCluster]:
    """A cluster of processes that end with this one; its logs are in the report of a failure."""
    members = plan.plan(len(hosts) - 1, hosts, groups=groups)
    cluster = LocalCluster.create(root, members, SMALL_FILES | dict(settings), tied=True)
    _clusters.append(cluster)
    try:
        cluster.up()
        yield cluster
        assert not _mistakes(cluster), "\n".join(_mistakes(cluster))
    finally:
        cluster.down()
        _clusters.remove(cluster)


def _mistakes(cluster: LocalCluster) -> list[str]:
    """What the logs say of exceptions: a test may break its cluster, and none may come of it."""
    names = [member.name for member in cluster.profile.members]
    return [f"{name}: {said}" for name in names for said in stories.mistakes(cluster.folder(name))]


@pytest.fixture(scope="session")
def local_cluster(
    tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[LocalCluster]:
    """A name server and three brokers, started once per worker; leave it as you found it."""
    hosts = [new_address() for _ in range(4)]
    with running_cluster(tmp_path_factory.mktemp("cluster"), hosts, {}) as cluster:
        yield cluster


@pytest.fixture
def make_cluster(tmp_path: Path, new_address: Callable[[], str]) -> Iterator[MakeCluster]:
    """Call it for a running cluster of your own; keywords: nodes, settings."""
    with contextlib.ExitStack() as stack:
        count = itertools.count()

        def make(nodes: int = 3, settings: Mapping[str, str] | None = None) -> LocalCluster:
            root = tmp_path / f"cluster-{next(count)}"
            hosts = [new_address() for _ in range(nodes + 1)]
            return stack.enter_context(running_cluster(root, hosts, settings or {}))

        yield make
