"""The home of a query: one staging topic and one broker for ever, whatever is changed or away."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from itertools import product
from random import Random
from typing import Any

import pytest

from cluster.errors import ClusterError, InvalidRequest, NotConnected, OutcomeUnknown
from pipeline.sink.home import Brokers, find_home
from pipeline.sink.options import MARKS

from .fake_store import Driver

QUERY = "0f1e2d3c000011112222333344445555"
REFUSALS = InvalidRequest | NotConnected | OutcomeUnknown
Home = tuple[str, str]  # staging topic, broker


class FakeBrokers:
    """`offsets`: what each broker keeps. `away`: unregistered; `silent`: registered, no answers."""

    def __init__(self, names: str = "abc", topics: str = "AB") -> None:
        self.names, self.topics = names, topics
        self.offsets: dict[str, dict[tuple[str, str], int]] = {name: {} for name in names}
        self.away: set[str] = set()
        self.silent: set[str] = set()
        self.read_only: set[str] = set()

    def find(self, topic: str) -> tuple[Driver, list[Home]]:
        """A driver that finds the home, then keeps a mark there as a decision does."""
        found: list[Home] = []

        async def work() -> None:
            kept = FakeKept(self, topic)
            home = await find_home(kept, QUERY, topic)
            found.append((topic, home))
            await kept.keep(MARKS + QUERY, home, 1)

        return Driver(work()), found

    def home(self, topic: str) -> Home | ClusterError:
        driver, found = self.find(topic)
        while not driver.is_over:
            driver.step()
        return driver.error or found[0]


class _Step:
    def __await__(self) -> Generator[None, None, None]:
        yield


class FakeKept:
    def __init__(self, cluster: FakeBrokers, topic: str) -> None:
        self._cluster, self._topic = cluster, topic

    async def brokers(self) -> Brokers:
        here = [name for name in self._cluster.names if name not in self._cluster.away]
        writable = [name for name in here if name not in self._cluster.read_only]
        return Brokers(here, here, writable)

    async def topics(self, group: str, broker: str) -> list[str]:
        rows = await self._rows(broker)
        return [topic for kept, topic in rows if kept == group]

    async def get(self, group: str, broker: str) -> int | None:
        return (await self._rows(broker)).get((group, self._topic))

    async def keep(self, group: str, broker: str, value: int) -> int:
        rows, place = await self._rows(broker), (group, self._topic)
        rows[place] = max(rows.get(place, 0), value)
        return rows[place]

    async def _rows(self, broker: str) -> dict[tuple[str, str], int]:
        await _Step()
        if broker in self._cluster.silent:
            raise NotConnected(f"{broker} does not answer")
        return self._cluster.offsets[broker]


@pytest.fixture(autouse=True)
def _one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions to several brokers come one after the other, without an event loop."""

    async def one_by_one(*works: Coroutine[Any, Any, Any]) -> list[Any]:
        try:
            return [await work for work in works]
        finally:
            for work in works:
                work.close()

    monkeypatch.setattr("pipeline.sink.home.each", one_by_one)


def test_a_home_is_found_again() -> None:
    cluster = FakeBrokers()
    first = cluster.home("A")
    assert isinstance(first, tuple)
    assert cluster.home("A") == first


@pytest.mark.parametrize("is_marked", [True, False])
def test_another_staging_topic_and_the_first_one_again(is_marked: bool) -> None:
    """A, B, A: B is refused and named what to give, also when its driver died before its mark."""
    cluster = FakeBrokers()
    first = cluster.home("A")
    if not is_marked:
        for rows in cluster.offsets.values():
            rows.pop((MARKS + QUERY, "A"), None)
    error = cluster.home("B")
    assert isinstance(error, InvalidRequest)
    assert 'option("stagingTopic", "A")' in str(error)
    assert cluster.home("A") == first


def test_a_mark_of_an_earlier_release_is_known_from_another_topic() -> None:
    """It told no other broker; the broker that has the mark is asked as well."""
    cluster = FakeBrokers()
    cluster.offsets["c"][MARKS + QUERY, "A"] = 7
    assert isinstance(cluster.home("B"), InvalidRequest)
    assert cluster.home("A") == ("A", "c")
    cluster.away.add("c")
    assert isinstance(cluster.home("A"), NotConnected), "the others were told meanwhile"


@pytest.mark.parametrize("trouble", ["away", "silent", "read_only"])
@pytest.mark.parametrize("topic", ["A", "B"])
def test_while_the_home_is_away_the_query_is_refused(trouble: str, topic: str) -> None:
    cluster = FakeBrokers()
    first = cluster.home("A")
    assert isinstance(first, tuple)
    getattr(cluster, trouble).add(first[1])
    if trouble == "read_only":  # its mark can be read, and a decision will be refused
        assert topic == "B" or cluster.home(topic) == first
        return
    error = cluster.home(topic)
    assert isinstance(
        error, NotConnected if topic == "A" or trouble == "silent" else InvalidRequest
    )
    getattr(cluster, trouble).clear()
    assert cluster.home("A") == first


def test_a_broker_that_came_later_knows_the_home_too() -> None:
    """It is told by the next driver, so that it can tell when all others are away."""
    cluster = FakeBrokers()
    cluster.away |= {"b", "c"}
    assert cluster.home("A") == ("A", "a")
    cluster.away.clear()
    assert cluster.home("A") == ("A", "a")
    cluster.away |= {"a", "b"}
    assert isinstance(cluster.home("A"), NotConnected)


def test_a_driver_that_died_before_its_mark_has_chosen_the_home() -> None:
    """Brokers came meanwhile; by the query's id another one would be chosen now."""
    cluster = FakeBrokers("abcdefgh")
    cluster.away |= set("bcdefgh")
    assert cluster.home("A") == ("A", "a")
    del cluster.offsets["a"][MARKS + QUERY, "A"]
    cluster.away.clear()
    assert cluster.home("A") == ("A", "a")


@pytest.mark.parametrize("topics", ["AA", "AB"])
def test_of_two_drivers_that_begin_at_once_one_goes_on(topics: str) -> None:
    """At every pair of moments; the second one does not see the broker that the first chooses."""
    refused, alone = 0, FakeBrokers().home(topics[0])
    assert isinstance(alone, tuple)
    for first, second in product(range(40), range(40)):
        cluster = FakeBrokers("abc")
        one, found = cluster.find(topics[0])
        two, other = cluster.find(topics[1])
        for driver, count in ((one, first), (two, second), (one, 99), (two, 99)):
            cluster.away = {alone[1]} if driver is two and count == second else set()
            while count and not driver.is_over:
                driver.step()
                cluster.away = set()
                count -= 1
        assert len(set(found + other)) <= 1, f"{first} steps, then {second}: {found}, {other}"
        refused += one.error is not None or two.error is not None
        for error in (one.error, two.error):
            assert error is None or isinstance(error, REFUSALS)
    assert refused


def test_random_histories_have_one_home_each() -> None:
    """Drivers of any staging topic die at any step, and brokers come and go, but for one of all."""
    ends: dict[str, int] = {}
    for seed in range(3_000):
        random = Random(seed)
        cluster = FakeBrokers("abcd", "ABC")
        homes: set[Home] = set()
        running: list[tuple[Driver, list[Home]]] = []
        for _ in range(60):
            chance = random.random()
            if chance < 0.15:
                for kind in (cluster.away, cluster.silent):
                    kind.clear()
                    kind |= {name for name in "abd" if random.random() < 0.3}
                cluster.silent -= cluster.away
            elif chance < 0.3 and len(running) < 3:
                running.append(cluster.find(random.choice(cluster.topics)))
            elif chance < 0.35 and running:
                running.pop()[0].kill()
            elif running:
                driver, found = random.choice(running)
                for _ in range(random.randint(1, 30)):
                    if not driver.is_over:
                        driver.step()
                if driver.is_over:
                    running.remove((driver, found))
                    homes |= set(found)
                    ends[type(driver.error).__name__] = ends.get(type(driver.error).__name__, 0) + 1
        for driver, found in running:
            homes |= set(found)
            driver.kill()
        assert len(homes) <= 1, f"seed {seed}: {homes}"
    assert {"NoneType", "NotConnected", "InvalidRequest"} <= set(ends)
