"""Clusters and client programs for the interop tests; pending scenarios; counts at the end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster.local.launcher import LocalCluster

from ..conftest import running_cluster
from .harness import toolchains
from .harness.content import create_topics
from .harness.pending import pending
from .harness.running import Run, run


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario of one client: `client` is java, go, node, cpp, mqadmin or failover.

    `version` and `mode` tell runs of one client apart; `mode` is "" or "binary".
    """

    client: str
    scenario: str
    version: str = ""
    mode: str = ""

    def __str__(self) -> str:
        return "-".join(part for part in (self.version, self.mode, self.scenario) if part)


def cases(found: Sequence[Case], smoke: Sequence[Case] = ()) -> list[object]:
    """Parameters for a test: what is not in `smoke` is long, what is pending must fail, and is long
    too: clients wait a minute for what does not come.
    """
    parameters: list[object] = []
    for case in found:
        marks: list[pytest.MarkDecorator] = []
        missing = pending(case.client, case.scenario, case.version)
        if case not in smoke or missing:
            marks.append(pytest.mark.long)
        if missing:
            # Strict: one that passes is an error, so that the table stays true.
            marks.append(pytest.mark.xfail(strict=True, reason=f"pending: {missing}"))
        parameters.append(pytest.param(case, marks=marks, id=str(case)))
    return parameters


@pytest.fixture(scope="session")
def make_session_cluster(
    tmp_path_factory: pytest.TempPathFactory, new_address: Callable[[], str]
) -> Iterator[Callable[..., LocalCluster]]:
    """Call it for a cluster that lives until the end of the run; keywords: settings, groups."""
    with ExitStack() as stack:

        def make(settings: dict[str, str] | None = None, groups: int = 1) -> LocalCluster:
            hosts = [new_address() for _ in range(4)]
            root = tmp_path_factory.mktemp("interop")
            return stack.enter_context(running_cluster(root, hosts, settings or {}, groups))

        yield make


@pytest.fixture(scope="session")
def plain_cluster(make_session_cluster: Callable[..., LocalCluster]) -> LocalCluster:
    """A name server and three brokers with default settings."""
    return make_session_cluster()


_prefixes = itertools.count()


class Programs:
    """Runs each client program once per version and mode, with the scenarios that are selected."""

    def __init__(self, nameserver: str, home: Path, selected: Sequence[Case]) -> None:
        self.nameserver, self._home = nameserver, home
        self._selected = selected
        self._runs: dict[tuple[object, ...], tuple[str, Run]] = {}
        self._missing: dict[tuple[object, ...], str] = {}

    @staticmethod
    def _key(case: Case) -> tuple[object, ...]:
        """Pending scenarios run apart: what a client does without its answers disturbs others."""
        missing = pending(case.client, case.scenario, case.version)
        return case.client, case.version, case.mode, missing is None

    def of(
        self, case: Case, command: Callable[[], list[str]], created: Callable[[str], bool]
    ) -> tuple[str, Run]:
        """The prefix of the topics and the run that `case` belongs to.

        Skips when the tool chain is missing. `created` says for which scenarios the topic exists
        before the program starts.
        """
        key = self._key(case)
        if key not in self._runs:
            wanted = [other.scenario for other in self._selected if self._key(other) == key]
            names = list(dict.fromkeys([case.scenario, *wanted]))
            if key not in self._missing:
                try:
                    start = command()
                except toolchains.Missing as missing:
                    self._missing[key] = str(missing)
            if key in self._missing:  # told once per run: a build that failed takes minutes
                pytest.skip(self._missing[key])
            prefix = f"T{next(_prefixes)}_{case.client}"
            topics = [f"{prefix}_{name}" for name in names if created(name)]
            create_topics(self.nameserver, topics)
            home = self._home / prefix
            done = run([*start, self.nameserver, prefix, *names], home)
            self._runs[key] = (prefix, done)
        return self._runs[key]


@pytest.fixture(scope="session")
def programs(
    request: pytest.FixtureRequest,
    plain_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Programs:
    selected = []
    for item in request.session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")  # type: ignore[attr-defined]
        if isinstance(case, Case):
            selected.append(case)
    return Programs(plain_cluster.nameserver, tmp_path_factory.mktemp("home"), selected)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many scenarios wait for their server part."""
    waiting = terminalreporter.stats.get("xfailed", ())
    mine = [report for report in waiting if "tests/interop/" in report.nodeid]
    if mine:
        terminalreporter.write_line(f"interop: {len(mine)} pending (tests/interop/pending.toml)")
