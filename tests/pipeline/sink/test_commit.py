"""A commit by random histories: rows in any order, tasks cut anyhow, repeats, zombies, restarts.

    python -m pytest tests/pipeline/sink/test_commit.py -m long      100,000 histories, some minutes

Each history computes a batch again whenever its driver died: other partitions, another order, in
some histories other rows. Afterwards a reader has the rows of exactly one computation; or the query
was refused, which only brokers that forget may cause, and no row is there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from random import Random

import pytest

from cluster.broker.kernel.write.dedup import read_numbers
from cluster.errors import (
    ClusterError,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    ProducerForgotten,
    SendTimeout,
)
from cluster.protocol.batch import encode_numbered, iterate
from cluster.protocol.json_body import MessageQueue
from commitlog.records.producer_numbers import BATCH_ROWS_MAX
from dledger.core.types import Index
from dledger.producers.table import ProducerTable
from pipeline.sink import commit as commit_module
from pipeline.sink import staged as staged_module
from pipeline.sink.attempt import queue_name
from pipeline.sink.commit import commit, publish
from pipeline.sink.numbering import PRODUCERS_OF_A_WRITE, Numbering
from pipeline.sink.staged import Place, Staged, encode_frame
from pipeline.sink.stream import Request

from .fake_store import BROKER, HOUR_MS, OTHER, Driver, FakeCluster, FakeStore

QUERY = "0f1e2d3c000011112222333344445555"
MANIFEST, ROWS = f"batch/{QUERY}/manifest", f"batch/{QUERY}/0"
QUEUES = [MessageQueue("t", BROKER, number) for number in range(3)]
ELSEWHERE = MessageQueue("t", OTHER, 0)  # a broker that has forgotten can be told by an index only
KILLS_MAX = 6
SHORT, LONG, LOT = 3_000, 100_000, 1_000


class History:
    """One seeded history; `play` gives how it ended."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.cluster = FakeCluster(has_index=random.random() < 0.8)
        self.forgets = random.random() < 0.5
        self.same_rows = random.random() < 0.5
        self.queues = [*QUEUES, ELSEWHERE] if self.cluster.has_index else QUEUES
        self.zombies: list[Driver] = []
        self.computed: dict[int, list[Counter[bytes]]] = {}
        self.kills = self.happened = 0

    def play(self) -> str:
        try:
            return self._play()
        finally:
            for zombie in self.zombies:
                zombie.kill()

    def _play(self) -> str:
        for batch in range(self.random.randint(1, 3)):
            self.computed[batch] = []
            error = self._batch(batch)
            if error is not None:
                assert self.happened, f"refused, and nothing was forgotten: {error}"
                assert isinstance(error, OutcomeUnknown | NotFound | InvalidRequest), error
                self._check(whole=batch)
                return "refused"
            self._check(whole=batch + 1)
        for zombie in self.zombies:
            while not zombie.is_over:
                zombie.step()
        self._check(whole=len(self.computed))
        return "once"

    def _batch(self, batch: int) -> ClusterError | None:
        """Until a driver is through, or is told that it cannot go on."""
        for _ in range(30):
            driver = Driver(self._compute(batch))
            if self._run(driver):
                if isinstance(driver.error, SendTimeout):  # it stood still: the query is restarted
                    continue
                return driver.error
        raise AssertionError("no driver is ever through")

    def _run(self, driver: Driver) -> bool:
        """False: it was killed, or it stands still."""
        random = self.random
        while not driver.is_over:
            chance = random.random()
            if chance < 0.04 and self.kills < KILLS_MAX:
                self.kills += 1
                driver.kill()
                return False
            if chance < 0.08 and self.kills < KILLS_MAX:
                self.kills += 1
                self.zombies.append(driver)
                return False
            if chance < 0.10 and self.forgets and self.happened < 3:
                self.happened += 1
                self._forget()
            elif chance < 0.12:
                self.cluster.clock_ms += random.choice((1_000, 70_000))
            elif chance < 0.3 and self.zombies:
                zombie = random.choice(self.zombies)
                if not zombie.is_over:
                    zombie.step()
            else:
                driver.step()
        return True

    def _forget(self) -> None:
        if self.random.random() < 0.5:
            self.cluster.trim()
        else:
            self.cluster.forget(self.random.choice((BROKER, OTHER)))

    async def _compute(self, batch: int) -> None:
        """What Spark does: tasks, attempts, and the commit of those that it names."""
        random, store = self.random, FakeStore(self.cluster, self.random.choice((0, 3)))
        number = len(self.computed[batch]) if not self.same_rows else 0
        rows = [b"%d.%d.%d" % (batch, row, number) for row in range(random.randint(0, 12))]
        if self.same_rows and self.computed[batch]:
            rows = list(self.computed[batch][0].elements())
        self.computed[batch].append(Counter(rows))
        random.shuffle(rows)
        count = random.randint(1, 3)
        parts: list[list[bytes]] = [[] for _ in range(count)]
        for row in rows:
            random.choice(parts).append(row)
        tasks = []
        for partition, part in enumerate(parts):
            numbering = Numbering(QUERY, partition, batch)
            for _ in range(random.randint(0, 2)):  # attempts that fail, or come second
                random.shuffle(part)
                await self._attempt(store, numbering, part[: random.randint(0, len(part))])
            random.shuffle(part)
            tasks.append(await self._attempt(store, numbering, part))
        await commit(store, QUERY, batch, tasks)

    async def _attempt(self, store: FakeStore, numbering: Numbering, rows: list[bytes]) -> Staged:
        random = self.random
        data = b"".join(self._frames(numbering, rows))
        if random.random() < 0.4:
            return Staged(numbering.partition, "a", {}, (), data)
        places: list[Place] = []
        while data:
            size = random.randint(1, len(data))
            places.append(await store.stage(data[:size]))
            data = data[size:]
        return Staged(numbering.partition, "a", {}, tuple(places))

    def _frames(self, numbering: Numbering, rows: list[bytes]) -> Iterator[bytes]:
        prefix = b"__PID\x01%b\x02__SEQ\x01%%d\x02" % numbering.producer.encode()
        sent = Counter[MessageQueue]()
        at = 0
        while at < len(rows):
            queue, some = self.random.choice(self.queues), rows[at : at + self.random.randint(1, 4)]
            at += len(some)
            entries = [
                (None, row, b"UNIQ_KEY\x01%b\x02" % self.key(numbering, queue, first), None)
                for first, row in enumerate(some, sent[queue])
            ]
            body = encode_numbered(entries, prefix, numbering.sequence(sent[queue]))
            sent[queue] += len(some)
            yield encode_frame(queue, Request(body, len(some), 1))

    @staticmethod
    def key(numbering: Numbering, queue: MessageQueue, row: int) -> bytes:
        return numbering.key(f"{queue.broker_name}/{queue.queue_id}", row).encode()

    def _check(self, *, whole: int) -> None:
        """Batches below `whole` have the rows of one computation; the others, some of one."""
        found = Counter(row for rows in self.cluster.rows.values() for row in rows)
        for batch, computed in self.computed.items():
            mine = Counter({r: n for r, n in found.items() if r.startswith(b"%d." % batch)})
            if batch < whole:
                assert mine in computed, f"batch {batch}: {mine} is none of {computed}"
            else:
                assert any(mine <= one for one in computed), f"batch {batch}: {mine}"


# --- two drivers, at every pair of moments ------------------------------------------------------


HOME_FIRST = (QUEUES[0], ELSEWHERE)


def tasks_of(
    name: str, batch: int = 0, queues: tuple[MessageQueue, ...] = HOME_FIRST
) -> list[Staged]:
    """A task with two rows in a queue of each broker, inline; `name` tells computations apart."""
    numbering = Numbering(QUERY, 0, batch)
    prefix = b"__PID\x01%b\x02__SEQ\x01%%d\x02" % numbering.producer.encode()
    frames = []
    for queue in queues:
        entries = [
            (None, f"{name}{row}{queue.broker_name}".encode(), b"UNIQ_KEY\x01%b\x02" % key, None)
            for row, key in ((n, History.key(numbering, queue, n)) for n in range(2))
        ]
        body = encode_numbered(entries, prefix, numbering.sequence(0))
        frames.append(encode_frame(queue, Request(body, 2, 1)))
    rows = {queue_name(queue): 2 for queue in queues}
    return [Staged(0, name, rows, (), b"".join(frames))]


def whole(name: str) -> list[str]:
    return sorted(f"{name}{row}{broker}" for row in range(2) for broker in (BROKER, OTHER))


def rows_of(cluster: FakeCluster) -> list[str]:
    return sorted(row.decode() for rows in cluster.rows.values() for row in rows)


def driver_of(
    cluster: FakeCluster, name: str, queues: tuple[MessageQueue, ...] = HOME_FIRST
) -> Driver:
    return Driver(commit(FakeStore(cluster), QUERY, 0, tasks_of(name, queues=queues)))


def steps_of_a_commit() -> int:
    driver, steps = driver_of(FakeCluster(), "a"), 0
    while not driver.is_over:
        driver.step()
        steps += 1
    return steps


EVENTS: dict[str, Callable[[FakeCluster], None]] = {
    "nothing": lambda cluster: None,
    "the home forgets": lambda cluster: cluster.forget(BROKER),
    "the other broker forgets": lambda cluster: cluster.forget(OTHER),
    "the log is trimmed": lambda cluster: cluster.trim(),
}


@pytest.mark.parametrize("event", EVENTS)
def test_two_drivers_at_every_pair_of_moments_publish_one_computation(event: str) -> None:
    """One stands still at each of its steps; the other stops at each of its own, for a while."""
    steps = steps_of_a_commit()
    for first, second in product(range(steps), range(2 * steps)):
        cluster = FakeCluster()
        drivers = one, two = driver_of(cluster, "a"), driver_of(cluster, "b")
        for _ in range(first):
            one.step()
        EVENTS[event](cluster)
        for driver, count in ((two, second), (one, 10 * steps), (two, 10 * steps)):
            while count and not driver.is_over:
                driver.step()
                count -= 1
        found = rows_of(cluster)
        where = f"{event}; {first} steps, then {second}"
        if any(driver.error is None for driver in drivers):
            assert found in (whole("a"), whole("b")), where
        else:
            assert event != "nothing", where
            assert set(found) <= set(whole("a")) or set(found) <= set(whole("b")), where
            assert len(set(found)) == len(found), where
        if event == "nothing":
            assert (one.error, two.error) == (None, None), where


@pytest.mark.parametrize("queues", [HOME_FIRST, HOME_FIRST[::-1]])
def test_a_driver_that_stands_still_while_others_finish_and_brokers_forget_sends_nothing(
    queues: tuple[MessageQueue, ...],
) -> None:
    """One died at each of its steps; the next one stands still at each of its own, until a third
    one is through and the other broker has forgotten all of it."""
    steps = steps_of_a_commit()
    for first, second in product(range(steps), range(2 * steps)):
        cluster = FakeCluster()
        one, two, three = (driver_of(cluster, name, queues) for name in "abc")
        for driver, count in ((one, first), (two, second), (three, 10 * steps)):
            while count and not driver.is_over:
                driver.step()
                count -= 1
        one.kill()
        assert three.error is None
        found = rows_of(cluster)
        cluster.forget(OTHER)
        while not two.is_over:
            two.step()
        assert rows_of(cluster) == found, f"{first} steps, then {second}"


def test_a_batch_that_is_done_is_not_sent_again_when_it_is_forgotten() -> None:
    cluster = FakeCluster()
    for name in ("a", "b"):
        driver = driver_of(cluster, name)
        while not driver.is_over:
            driver.step()
        assert driver.error is None
        cluster.forget(BROKER)
        cluster.forget(OTHER)
        cluster.trim()
    assert rows_of(cluster) == whole("a")


def test_a_producer_that_was_taken_over_outlives_the_rows_that_came_after_it() -> None:
    """Why a broker that knows a manifest may have forgotten its rows; see `forget_rows`."""
    table = ProducerTable(producers_max=4)
    for index, producer in enumerate((MANIFEST, ROWS)):
        table.owned(producer, "former", 0)
        table.committed(producer, "t/0", 0, Index(index), 0)
    table.owned(MANIFEST, "new", 1)
    for number in range(3):
        table.owned(f"batch/other/{number}", "former", 2)
    assert MANIFEST in table
    assert ROWS not in table


@pytest.mark.parametrize("queues", [HOME_FIRST, HOME_FIRST[::-1]])
def test_a_home_that_knows_the_manifest_alone_is_asked_for_rows_too(
    queues: tuple[MessageQueue, ...],
) -> None:
    """`takeOver` makes a manifest's producer the last one heard: rows are forgotten before it."""
    refused = 0
    for steps in range(steps_of_a_commit() + 1):
        cluster = FakeCluster()
        one = driver_of(cluster, "a", queues)
        for _ in range(steps):
            if not one.is_over:
                one.step()
        one.kill()
        before = rows_of(cluster)
        cluster.forget_rows(BROKER)
        two = driver_of(cluster, "b", queues)
        while not two.is_over:
            two.step()
        if two.error is None:
            assert rows_of(cluster) in (whole("a"), whole("b")), f"{steps} steps"
        else:
            assert isinstance(two.error, ProducerForgotten)
            assert rows_of(cluster) == before
            refused += 1
    assert refused


@pytest.mark.parametrize("hours", [1, 13])
def test_an_index_is_believed_for_half_a_day(hours: int) -> None:
    """A broker that knows neither the producer nor the first row's key: fresh, or trimmed?"""
    cluster = FakeCluster()
    driver = driver_of(cluster, "a")
    while not rows_of(cluster):
        driver.step()
    driver.kill()
    assert set(rows_of(cluster)) == {"a0b", "a1b"}, "nothing is in the other broker"
    cluster.clock_ms += hours * HOUR_MS
    again = driver_of(cluster, "b")
    while not again.is_over:
        again.step()
    if hours == 1:
        assert again.error is None
        assert rows_of(cluster) == whole("a")
    else:
        assert isinstance(again.error, ProducerForgotten)


@pytest.mark.parametrize("queues", [HOME_FIRST, HOME_FIRST[::-1]])
def test_another_staging_topic_in_the_middle_of_a_batch_ends_the_query(
    queues: tuple[MessageQueue, ...],
) -> None:
    """A driver dies at each of its steps; the next one computes other rows and stages elsewhere."""
    ends: set[type | None] = set()
    for steps in range(steps_of_a_commit() + 1):
        cluster = FakeCluster()
        one = driver_of(cluster, "a", queues)
        for _ in range(steps):
            one.step()
        one.kill()
        before = rows_of(cluster)
        cluster.move_staging()
        two = driver_of(cluster, "b", queues)
        while not two.is_over:
            two.step()
        ends.add(type(two.error) if two.error else None)
        if two.error is None:
            assert (before, rows_of(cluster)) == ([], whole("b")), f"{steps} steps"
        else:
            assert "stagingTopic" in str(two.error)
            assert rows_of(cluster) == before
    assert ends == {None, OutcomeUnknown}


def test_a_batch_that_was_decided_for_another_topic_is_refused() -> None:
    """A checkpoint was copied, and the second query has another topic: same id, same batches.

    The first query's driver dies at each of its steps. Where nothing was decided yet, the second
    query decides, and its own rows are there; else it is refused, and the first one goes on.
    """
    there = tuple(queue._replace(topic="u") for queue in HOME_FIRST)
    ends: set[type | None] = set()
    for steps in range(steps_of_a_commit() + 2):
        cluster = FakeCluster()
        one = Driver(commit(FakeStore(cluster), QUERY, 0, tasks_of("a"), "t"))
        for _ in range(steps):
            if not one.is_over:
                one.step()
        one.kill()
        before = rows_of(cluster)
        two = Driver(commit(FakeStore(cluster), QUERY, 0, tasks_of("b", 0, there), "u"))
        while not two.is_over:
            two.step()
        ends.add(type(two.error) if two.error else None)
        if two.error is None:
            assert (before, rows_of(cluster)) == ([], whole("b")), f"{steps} steps"
            continue
        assert "decided for the topic t, and this query writes to u" in str(two.error)
        assert rows_of(cluster) == before
        again = Driver(commit(FakeStore(cluster), QUERY, 0, tasks_of("c"), "t"))
        while not again.is_over:
            again.step()
        assert (again.error, rows_of(cluster)) == (None, whole("a"))
    assert ends == {None, InvalidRequest}


class OrderedStore(FakeStore):
    """A producer's next batch comes when what it sent before is stored."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster, window=1_000)
        self.producers: dict[str, int] = {}
        self.waiting: dict[str, int] = {}

    async def send(self, queue: MessageQueue, request: Request) -> None:
        producer, number = read_numbers(next(iterate(request.body)).properties)
        batch = number // BATCH_ROWS_MAX
        assert self.waiting.get(producer, batch) == batch, "nothing of an earlier batch is left"
        assert self.producers.get(producer, batch) <= batch
        self.waiting[producer] = self.producers[producer] = batch
        await super().send(queue, request)

    async def flush(self) -> None:
        await super().flush()
        self.waiting.clear()


def test_a_write_without_an_identity_takes_few_producers() -> None:
    """Of 200 tasks, as a shuffle has; the driver gets their messages in any order."""
    cluster = FakeCluster()
    store = OrderedStore(cluster)
    tasks = []
    for partition in range(200):
        numbering = Numbering.of_a_write(QUERY, partition)
        prefix = b"__PID\x01%b\x02__SEQ\x01%%d\x02" % numbering.producer.encode()
        entries = [(None, b"%d" % partition, b"", None)]
        body = encode_numbered(entries, prefix, numbering.sequence(0))
        frame = encode_frame(QUEUES[partition % 3], Request(body, 1, 1))
        tasks.append(Staged(partition, "a", {}, (), frame))
    Random(7).shuffle(tasks)
    driver = Driver(publish(store, QUERY, tasks))
    while not driver.is_over:
        driver.step()
    assert driver.error is None
    assert rows_of(cluster) == sorted(str(partition) for partition in range(200))
    assert len(store.producers) == PRODUCERS_OF_A_WRITE


def test_an_older_batch_is_refused() -> None:
    cluster = FakeCluster()
    for batch, said in ((1, ""), (0, "is older than what the topics have")):
        driver = Driver(commit(FakeStore(cluster), QUERY, batch, tasks_of("a", batch)))
        while not driver.is_over:
            driver.step()
        assert said in str(driver.error)
    assert rows_of(cluster) == whole("a")


# --- random histories ---------------------------------------------------------------------------


def play(seeds: range) -> Counter[str]:
    ends: Counter[str] = Counter()
    for seed in seeds:
        try:
            ends[History(seed).play()] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    return ends


@pytest.fixture(autouse=True)
def _small_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests are staged in parts in some histories."""
    monkeypatch.setattr(commit_module, "RECORD_BYTES_MAX", 400)
    monkeypatch.setattr(staged_module, "PART_BYTES", 150)


def test_a_commit_by_random_histories_stores_one_computation_once() -> None:
    ends = play(range(SHORT))
    assert ends["once"] > SHORT / 2
    assert ends["refused"]


@pytest.mark.long
@pytest.mark.parametrize("lot", range(LONG // LOT))
def test_a_commit_by_very_many_histories_stores_one_computation_once(lot: int) -> None:
    play(range(lot * LOT, (lot + 1) * LOT))
