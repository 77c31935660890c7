"""Handlers of requests decide, and the steps that they return write: no handler puts a record into
the log, in whichever way.

A handler is the function in a `Handler(…)`. It may use no function that reaches the log, directly
or through others: by a port, a field of one, a helper of another module, a class that it makes, a
method that it hands on (log_writers.py tells by types). It returns a `Step`, whose `carry_out`
writes. Entries that the Raft log makes itself, of members and of leaderships, are no records.
"""

from __future__ import annotations

import ast
import functools

import pytest

from .log_writers import Program
from .source_tree import Source, sources

_KERNEL = "cluster.broker.kernel."
#: The log's own ways in; all others reach one of these.
ROOTS = (
    _KERNEL + "write.appender.Appender.open",
    _KERNEL + "write.appender.Appender.flush",
    _KERNEL + "ports.LogPort.propose",
    _KERNEL + "write.replica_log.ReplicaLog.propose",
)
#: They serve a request from its beginning, by the handler that it has.
AGAIN = (_KERNEL + "net.router.Router.ask_again", _KERNEL + "net.router.Router.request_again")
#: Its subclass of audited requests puts their entry in front of what they change, and of answers.
CALL = _KERNEL + "net.requests.Call"
#: They carry out what the function in them decides.
WRAPPERS = (_KERNEL + "net.decisions.decided", _KERNEL + "net.decisions.decided_for")
#: Functions that features' ports hold as such; a type says nothing of what these do.
CALLABLES = {
    "is_ordered": "looks at leases",
    "later": "runs a step later",
    "leader_address": "names the leader",
    "now": "a clock",
    "now_ms": "a clock",
    "route": "serves a request from its beginning, by the handler that it has",
    "to_error": "an error as clients are told it",
}
#: Modules of features that use the kernel's writers themselves → what for.
WRITE = {
    "access.audit.keeping": "retention of the audit log, on a timer",
    "access.audit.trail": "entries stand in front of what they are about",
    "admin.retention": "old files, on a timer and on a full disk",
    "clients.feature": "members whose connection closed: their groups' commits do not wait",
    "consume.lock_keeper": "what `LockDecision` says; leases hold each other off meanwhile",
    "delay.decisions": "steps of send-back and recall",
    "delay.delivery": "delayed messages that are due, on a timer",
    "delay.outcomes": "what `Recalled` and the timer say",
    "delay.retry_topics": "sends to retry topics: on the path of sends",
    "pop.reviving": "pops that nobody acknowledged, on a timer",
    "pop.writer": "what `PopTaken`, `PopDecision` and the timer say",
    "produce.owners": "what `TakenOver` says; sends wait for the owner of their producer id",
    "produce.send": "sends: records of a connection's requests go into the batch, none is a value",
    "produce.topic_creation": "sends wait for their topic",
    "transactions.check_back": "producers asked for outcomes, on a timer",
    "transactions.outcomes": "what `Ended` and the timer say",
}


@functools.cache
def _broker() -> Program:
    parts = [one for one in sources() if one.path.startswith("cluster/broker/")]
    return Program(parts, ROOTS, AGAIN, [CALL])


def test_no_handler_writes() -> None:
    broker = _broker()
    handlers = dict(broker.handlers(WRAPPERS))
    assert len(handlers) > 90
    assert [where for where, used in handlers.items() if not used & broker.functions.keys()] == []
    found = {where: sorted(used & broker.writers) for where, used in handlers.items()}
    assert {where: used for where, used in found.items() if used} == {}, (
        "return a Step (cluster/broker/kernel/net/decisions.py)"
    )


def test_writers_are_known_by_their_types_wherever_handlers_look() -> None:
    """No handler, and no function that it uses, takes a writing name from a value without one."""
    broker = _broker()
    kernel = {one for one in broker.writers if one.startswith(_KERNEL + "write.")}
    names = {one.rpartition(".")[2] for one in kernel} - {"write"}  # of clients and files, too
    used = set[str]().union(*(used for _, used in broker.handlers(WRAPPERS)))
    found = {one: broker.unknown.get(one, set()) & names for one in broker.reached(used)}
    assert {one: sorted(taken) for one, taken in found.items() if taken} == {
        "cluster.broker.admin.figures.runtime._replica": ["commit", "flushed"],  # of a status
        "cluster.broker.admin.member_requests._picture": ["commit", "flushed"],
    }


def test_functions_in_ports_are_named() -> None:
    broker, found = _broker(), set[str]()
    for part in sources():
        if not part.path.startswith("cluster/broker/") or not part.path.endswith("/ports.py"):
            continue
        for node in part.nodes:
            if isinstance(node, ast.ClassDef) and f"{part.name}.{node.name}" in broker.kinds:
                found |= {
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign)
                    and isinstance(one.target, ast.Name)
                    and "Callable" in ast.unparse(one.annotation)
                }
    assert found == CALLABLES.keys()


def test_modules_of_features_that_write_are_named() -> None:
    broker = _broker()
    kernel = {one for one in broker.writers if one.startswith(_KERNEL + "write.")}
    found = {
        module.removeprefix("cluster.broker.")
        for name, used in broker.uses.items()
        if used & kernel
        for module in (broker.functions[name][0],)
        if module.count(".") > 2 and not module.startswith(_KERNEL)
    }
    assert found == WRITE.keys()


_KNOWN = """
from typing import Protocol
class Appender:
    def open(self): ...
class Writer:
    def __init__(self, appender: Appender) -> None:
        self._to = appender
    def log(self, change): self._to.open()
    def size(self): ...
class Locks:
    def __init__(self, writer: Writer) -> None:
        self.log_of_locks, self.count = writer, 0
class Logs(Protocol):
    def log(self, change): ...
class Ports:
    thing: Writer
    locks: Locks
    logs: Logs
    def __init__(self) -> None: ...
class Waiting:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
    def begin(self): self._ports.thing.log(1)
def help(any: Ports): any.thing.log(1)
def first(values: list[Writer]) -> Writer: ...
"""


def _program(text: str) -> Program:
    def part(name: str, text: str) -> Source:
        return Source(name, name, text, ast.parse(text))

    imports = "from known import Appender, Locks, Logs, Ports, Waiting, Writer, first, help\n"
    requests = "from a.requests import Handler\nROUTES = {1: Handler(fields, decide)}\n"
    parts = [part("known", _KNOWN), part("a", imports + text + "\n" + requests)]
    return Program(parts, ["known.Appender.open"])


@pytest.mark.parametrize(
    "body",
    [
        "ports.thing.log(1)",
        "x = ports; y = x.thing; y.log(1)",
        "call.later(ports.thing.log)",
        "x, y = 1, ports.locks; y.log_of_locks.log(1)",
        "ports.logs.log(1)",
        "help(ports)",
        "call.later(help, ports)",
        "call.later(lambda: ports.locks.log_of_locks.log(1))",
        "Waiting(ports).begin()",
        "Writer(call.appender).log(1)",
        "first([]).log(1)",
        "for one in [ports.thing]: one.log(1)",
        "if (found := ports.thing): found.log(1)",
        "def later(it: Writer): it.log(1)\n    call.later(later)",
        "x: Writer = call.of(1); x.log(1)",
        "(ports.thing or None).log(1)",
    ],
)
def test_a_handler_that_writes_is_found(body: str) -> None:
    program = _program(f"def decide(ports: Ports, call, request):\n    {body}")
    assert program.writers >= {"known.Writer.log", "known.Waiting.begin", "known.help"}
    ((_, used),) = program.handlers(())
    assert used & program.writers, body


@pytest.mark.parametrize("body", ["return ports.thing.size()", "return Waiting(ports)", "pass"])
def test_a_handler_that_decides_is_not(body: str) -> None:
    program = _program(f"def decide(ports: Ports, call, request):\n    {body}")
    ((_, used),) = program.handlers(())
    assert not used & program.writers
