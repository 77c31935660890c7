"""`scripts/bench messages [KEY=VALUE ...]`: us and other brokers, by turns, with the same rules.

    subject                   client                 an acknowledged message is
    ours                      ours                   synced on a majority of three (F)
    ours, Java client         RocketMQ's for Java    the same
    NATS F                    nats.go                synced on a majority of three (F)
    RocketMQ master/slave     RocketMQ's for Java    synced on the master, in the slave's page cache
    RocketMQ DLedger          RocketMQ's for Java    in the page cache of a majority of three
    Kafka                     Kafka's for Java       in the page cache of all in sync, two at least
    Kafka F                   Kafka's for Java       the same, synced (flush.messages=1)
    RocketMQ controller       RocketMQ's for Java    in the page cache of all in sync
    etcd F                    etcd's for Go          synced on a majority of three (F)
    answers at once           RocketMQ's for Java    nowhere: what this client can do at most

Each round takes every subject once: it starts from nothing (cold start), a Java client warms up,
then each window is loaded for `seconds`; a topic of 1 KiB messages with keys is read from its
start; then nothing happens for `idle_seconds`. Bodies are random. Figures are medians of the
rounds. CPU a message is of all processes of the servers, over the measured span.

The rule for disturbed turns, stated before: a measured span in which programs that do not belong
to it took more than `others_max` of the processors is measured again, `tries` times at most. If it
stays so, its row is marked, and medians leave it out; a cell that has only marked rows is printed
with a "!", and its bars are not judged. A cold start cannot be repeated: it is marked by the
seconds before it, in which the machine's limits are measured.

A send that fails is counted, whoever's client it is, and the load goes on. A cell with failed sends
in any turn is marked, and its bars are not judged. A turn that breaks off is told under the tables,
and the others go on.

    rounds                of all subjects (default 3)
    subjects              some of them, "all" (default; not Kafka F, controller, etcd), "every"
    windows               messages in flight (default 1,64,1024)
    seconds               of load for each window (default 4)
    warm_up_seconds       of load before it that does not count (default 1)
    java_warm_up_seconds  of load before the first window of a Java client (default 20)
    body_size             bytes a message (default 1024)
    small_body_size       bytes a message, once more at the largest window (default 128)
    batches               batches of 32 in flight, RocketMQ's Java client (default 1,8)
    tasks                 that await `send` (default 64)
    consume_messages      to read (default 100000)
    idle_seconds          (default 3)
    queues                of a topic, partitions of Kafka (default 4)
    others_max            share of the processors (default 0.1)
    tries                 of a disturbed span (default 2)
    folder                where to work
    file                  a JSON line for each row and each turn's limits goes there
    rows                  such a file: nothing is measured, its rows are told again
    svg                   a drawing goes there
    page                  a page between whose markers the tables go (docs/speed.md)
    note                  said above the tables of the page
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from chaos.bench.machine import limits
from cluster.bench.interpreter import description
from cluster.bench.scratch import anonymous_mb
from cluster.commands.bench import parse
from cluster.commands.errors import CommandError
from tests.interop.harness import toolchains
from tests.peers import bars, programs, report, servers
from tests.peers.bars import BROKEN, CONSUME, IDLE, LIMITS, SEND, START
from tests.peers.programs import Program
from tests.peers.rocketmq_cluster import CONTROLLER, DLEDGER, SYNC_FLUSH
from tests.peers.spans import Span

MAJORITY = "F: synced on a majority of three"
READ_TOPIC, SENT_TOPIC = "bench-read", "bench-sent"


@dataclass(frozen=True, slots=True)
class Options:
    """What the module's text says of each; "" for none."""

    rounds: int = 3
    subjects: str | tuple[str, ...] = "all"
    windows: tuple[int, ...] = (1, 64, 1024)
    seconds: float = 4.0
    warm_up_seconds: float = 1.0
    java_warm_up_seconds: float = 20.0
    body_size: int = 1024
    small_body_size: int = 128
    batches: tuple[int, ...] = (1, 8)
    tasks: int = 64
    consume_messages: int = 100_000
    idle_seconds: float = 3.0
    queues: int = 4
    others_max: float = 0.1
    tries: int = 2
    folder: str = ""
    file: str = ""
    rows: str = ""
    svg: str = ""
    page: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """Servers and a client.

    Attributes:
        durability: what an acknowledged message is.
        modes: of `send` with many in flight, beside `single`.
        reads: modes of `consume`.
        is_java: its client warms up for long.
        by_default: whether "all" has it.
    """

    name: str
    durability: str
    started: servers.Started
    client: Callable[[], list[str]]
    modes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ("each",)
    is_java: bool = False
    by_default: bool = True


SUBJECTS = (
    Subject(bars.OURS, MAJORITY, servers.ours, programs.ours,
            ("batching", "tasks", "tasks-batching"), ("each", "list")),
    Subject(bars.OURS_JAVA, MAJORITY, servers.ours, programs.rocketmq, ("batches",), is_java=True),
    Subject(bars.NATS, MAJORITY, servers.nats, programs.nats),
    # Its slave tells how far it has written, not how far it has synced (DefaultHAClient).
    Subject(bars.MASTER_SLAVE, "synced on the master, in the page cache of the slave",
            servers.rocketmq(SYNC_FLUSH), programs.rocketmq, ("batches",), is_java=True),
    Subject(bars.DLEDGER, "in the page cache of a majority of three", servers.rocketmq(DLEDGER),
            programs.rocketmq, ("batches",), is_java=True),
    Subject(bars.KAFKA, "in the page cache of all in sync, two at least", servers.kafka,
            programs.kafka, is_java=True),
    Subject(bars.KAFKA_FLUSH, "F: synced on all in sync, two at least", servers.kafka,
            partial(programs.kafka, "flush"), is_java=True, by_default=False),
    Subject(bars.CONTROLLER, "in the page cache of all in sync", servers.rocketmq(CONTROLLER),
            programs.rocketmq, ("batches",), is_java=True, by_default=False),
    Subject(bars.ETCD, MAJORITY, servers.etcd, programs.etcd, by_default=False),
    Subject(bars.AT_ONCE, "nowhere: the most that this client can do", servers.at_once,
            programs.at_once, reads=(), is_java=True),
)  # fmt: skip
BY_NAME = {subject.name: subject for subject in SUBJECTS}
#: A name with a comma cannot be given as KEY=VALUE: these can.
SHORT = {
    "java": bars.OURS_JAVA, "nats": bars.NATS, "master-slave": bars.MASTER_SLAVE,
    "dledger": bars.DLEDGER, "kafka": bars.KAFKA, "kafka-flush": bars.KAFKA_FLUSH,
    "controller": bars.CONTROLLER, "etcd": bars.ETCD, "at-once": bars.AT_ONCE,
}  # fmt: skip


#: Options whose text may have commas and numbers.
TEXTS = {"folder", "file", "rows", "svg", "page", "note"}


def parsed(arguments: Sequence[str]) -> Options:
    """KEY=VALUE. Raises CommandError for one that is not known."""
    given = parse(tuple(arguments))
    known = {field.name for field in fields(Options)}
    if unknown := set(given) - known:
        raise CommandError(f"no option {min(unknown)}; scripts/bench messages --help lists them", 2)
    raw = {name: value for name, _, value in (one.partition("=") for one in arguments)}
    given |= {name: raw[name] for name in TEXTS & set(given)}
    for name in ("windows", "batches"):
        if isinstance(given.get(name), int):
            given[name] = (given[name],)
    if isinstance(given.get("subjects"), str) and given["subjects"] not in ("all", "every"):
        given["subjects"] = (given["subjects"],)
    options = Options(**given)
    chosen(options)
    return options


def chosen(options: Options) -> list[Subject]:
    """The subjects of a run, in the order of their turns. Raises CommandError."""
    if isinstance(options.subjects, str):
        return [one for one in SUBJECTS if one.by_default or options.subjects == "every"]
    names = [SHORT.get(name, name) for name in options.subjects]
    for name in names:
        if name not in BY_NAME:
            listed = ", ".join(["ours", *SHORT])
            raise CommandError(f"no subject {name}; there are {listed}", 2)
    return [one for one in SUBJECTS if one.name in names]


def turns(options: Options) -> Iterator[tuple[int, Subject]]:
    """Every subject once a round; each round begins with another one."""
    some = chosen(options)
    for number in range(options.rounds):
        at = number % len(some)
        for subject in some[at:] + some[:at]:
            yield number, subject


def windows_of(subject: Subject, options: Options) -> list[tuple[str, int, int]]:
    """Mode, window and body size of each span of sends."""
    size, most = options.body_size, max(options.windows)
    found = [("single", window, size) for window in options.windows]
    for mode in subject.modes:
        if mode == "batches":
            found += [(mode, window, size) for window in options.batches]
        elif mode.startswith("tasks"):
            found.append((mode, options.tasks, size))
        else:
            found += [(mode, window, size) for window in options.windows if window > 1]
    small = ("single", *(mode for mode in subject.modes if mode == "batching"))
    return found + [(mode, most, options.small_body_size) for mode in small]


def run(options: Options, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measure; rows, one of kind "limits" for each turn, one of "broken" where it broke off.

    Raises Missing.
    """
    for subject in chosen(options):
        subject.client()  # what is missing is said before anything is measured
    rows = []
    for number, subject in turns(options):
        say(f"round {number + 1}: {subject.name}")
        for row in _whole_turn(subject, options, say):
            row = {"round": number, "subject": subject.name, **row}
            rows.append(row)
            if options.file:
                path = Path(options.file)
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return rows


def stored(file: str) -> list[dict[str, Any]]:
    """The rows of an earlier run, or of several whose files were joined. Raises CommandError."""
    try:
        return [json.loads(line) for line in Path(file).read_text().splitlines()]
    except (OSError, ValueError) as error:
        said = f"{file} has no rows of an earlier run: {error}; name a file that file= wrote"
        raise CommandError(said, 2) from None


def _row(kind: str, mode: str = "", window: int = 0, size: int = 0, **figures: Any) -> Any:
    named = {"kind": kind, "mode": mode, "window": window, "body_size": size}
    return {**named, "disturbed": False, **figures}


def _whole_turn(
    subject: Subject, options: Options, say: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """All figures of one subject, once; one that breaks off costs no figure of another."""
    try:
        yield from _turn(subject, options)
    except Exception as error:
        say(traceback.format_exc())
        yield _row(BROKEN, why=f"{type(error).__name__}: {error}")


def _turn(subject: Subject, options: Options) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="peers-", dir=options.folder or None) as name:
        before = Span([])
        measured = {"date": time.strftime("%Y-%m-%d"), "python": description()}
        yield _row(LIMITS, **measured, **limits(Path(name)))
        before.end()
        folder = Path(name) / "servers"
        folder.mkdir()
        client = Program(subject.client(), Path(name) / "client")
        try:
            began = time.perf_counter()
            with subject.started(folder) as running:
                running.make_topic(SENT_TOPIC, options.queues)
                client.ask("open", running.address, SENT_TOPIC, options.queues)
                seconds = time.perf_counter() - began
                yield _row(START, seconds=seconds, **before.sign(options.others_max))
                turn = _Turn(subject, options, running, client)
                yield from turn.sends()
                yield from turn.reads()
                yield turn.idle()
        finally:
            client.close()


@dataclass(frozen=True, slots=True)
class _Turn:
    subject: Subject
    options: Options
    running: servers.Servers
    client: Program
    pause: Callable[[float], None] = time.sleep

    def sends(self) -> Iterator[dict[str, Any]]:
        """Each window, warmed up before."""
        options = self.options
        if self.subject.is_java:
            self._send("single", max(options.windows), options.body_size,
                       options.java_warm_up_seconds)  # fmt: skip
        for mode, window, size in windows_of(self.subject, options):
            self._send(mode, window, size, options.warm_up_seconds)
            found, span = self._measured(
                lambda mode=mode, window=window, size=size: self._send(
                    mode, window, size, options.seconds
                )
            )
            yield _row(
                SEND, mode, window, size,
                acked=found["acked"], failed=found["failed"],
                messages_per_second=found["acked"] / found["seconds"],
                p50_ms=float(found["p50_ms"]), p99_ms=float(found["p99_ms"]),
                **span.figures(found["acked"], options.others_max),
            )  # fmt: skip

    def reads(self) -> Iterator[dict[str, Any]]:
        """The topic from its start, once before that does not count."""
        if not self.subject.reads:
            return
        count, size = self.options.consume_messages, self.options.body_size
        self.running.make_topic(READ_TOPIC, self.options.queues)
        self.client.ask("open", self.running.address, READ_TOPIC, self.options.queues)
        filled = self.client.ask("fill", READ_TOPIC, count, size)
        stored = 1 + int(filled["acked"])
        for mode in self.subject.reads:
            order = ("consume", mode, READ_TOPIC, stored)
            self.client.ask(*order)
            found, span = self._measured(lambda order=order: self.client.ask(*order))
            yield _row(
                CONSUME, mode, 0, size,
                messages_per_second=found["messages"] / found["seconds"],
                **span.figures(found["messages"], self.options.others_max),
            )  # fmt: skip

    def idle(self) -> dict[str, Any]:
        """Memory after the load, and what the servers take while nothing happens."""
        memory = [anonymous_mb(node) for node in self.running.nodes]

        def nothing() -> dict[str, Any]:
            self.pause(self.options.idle_seconds)
            return {}

        _, span = self._measured(nothing)
        return _row(
            IDLE,
            resident_mb=sum(memory) / len(memory),
            idle_cores=span.server_seconds / span.seconds,
            **span.sign(self.options.others_max),
        )

    def _send(self, mode: str, window: int, size: int, seconds: float) -> dict[str, Any]:
        return self.client.ask("send", mode, SENT_TOPIC, window, size, round(seconds * 1000))

    def _measured(self, work: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], Span]:
        """By the rule: once more where others disturbed it."""
        for _ in range(max(1, self.options.tries)):
            span = Span(self.running.all, self.client.process)
            found = work()
            span.end()
            if span.others_share <= self.options.others_max:
                break
        return found, span


def main(arguments: Sequence[str]) -> int:
    """Exit code 1: a bar is missed or not judged, a turn broke off, or a part is missing."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    # Ended from outside, it still ends the servers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        options = parsed(arguments)
        if options.page:
            report.check_page(Path(options.page))  # before anything is measured
        rows = stored(options.rows) if options.rows else run(options, partial(print, flush=True))
    except CommandError as error:
        print(error.message)
        return error.exit_code
    except toolchains.Missing as missing:
        print(missing)
        return 1
    durability = {subject.name: subject.durability for subject in SUBJECTS}
    found = report.text(rows, durability)
    print(found)
    if options.svg:
        Path(options.svg).write_text(report.svg(rows, durability))
    if options.page:
        command = "scripts/bench messages " + " ".join(
            one for one in arguments if not one.startswith("note=")
        )
        date = report.recorded(rows, "date")
        report.into_page(Path(options.page), found, command, options.note, options.svg, date)
    return 0 if report.is_met(rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
