#!/usr/bin/env python3
"""Write the blocking twin of the embedding classes; `--check` only tells.

    async def f(...)               ->  def f(...), run in the loop's thread
    def f(...) -> Future[T]        ->  def f(...) -> T, and f_nowait(...) -> a future for threads
    async def f(...): yield        ->  def f(...) -> Iterating[T]
    @asynccontextmanager           ->  @contextmanager
    WAITS                          ->  the same, with `timeout` seconds

`CLASSES` lists the public methods; a method without underscore that is in neither list is an error.
The client's twin is made by unasync.py.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.unasync import call_arguments, formatted, sync_text  # noqa: E402

TWINS = ROOT / "dledger" / "blocking"


class Class(NamedTuple):
    """An async class. `internal`: names for other modules; `extra`: text of the twin's own."""

    name: str
    module: str
    public: frozenset[str]
    internal: frozenset[str] = frozenset()
    extra: str = ""
    waits: frozenset[str] = frozenset()


def names(text: str) -> frozenset[str]:
    """Words of a text."""
    return frozenset(text.split())


LOG_EXTRA = '''
    @classmethod
    def format(
        cls, config: RaftConfig, *, joins: bool = False, files: FileSystem = OS_FILES
    ) -> None:
        """As `dledger.ReplicatedLog.format`."""
        _replicated_log.ReplicatedLog.format(config, joins=joins, files=files)
'''

NODE_EXTRA = '''
    @classmethod
    def of(cls, thread: LoopThread, inner: _node.ReplicatedNode[C, R]) -> ReplicatedNode[C, R]:
        """The twin of a node that runs in `thread`."""
        made = object.__new__(cls)
        Lifetime.__init__(made, inner, thread)
        return made

    @property
    def config(self) -> RaftConfig:
        """As it was given."""
        return self._inner.config

    @property
    def machine(self) -> ReplicatedStateMachine[C, R]:
        """The user's; it lives in the loop's thread: look at it by `read`."""
        return self._inner.machine

    @property
    def log(self) -> ReplicatedLog:
        """The replica below, for its status and its members."""
        return ReplicatedLog.of(self._thread, self._inner.log)

    @property
    def snapshot_error(self) -> SnapshotFailed | None:
        """Why a state was not written last time that one was not; None: all were."""
        return self._inner.snapshot_error

    @property
    def leader_changes(self) -> Changes[str | None]:
        """The name of the leader, None while none is known."""
        return Changes(self._thread, self._inner.leader_changes)

    @property
    def member_changes(self) -> Changes[tuple[Member, ...]]:
        """The members of the group, as the newest entry that changed them has it."""
        return Changes(self._thread, self._inner.member_changes)

    @property
    def slow_applies(self) -> Changes[SlowApply | None]:
        """The newest turn of applying that took too long; None: none did."""
        return Changes(self._thread, self._inner.slow_applies)

    def on_error(self, function: Callable[[DledgerError], object]) -> Callable[[], None]:
        """Have `function(error)` called when the node stops by itself, or a state was not written.

        As the async one; it is called in the loop's thread. Returns a function that ends it.
        """
        stop = self._thread.call(lambda: self._inner.on_error(function))
        return lambda: self._thread.end(stop)
'''

LOG_OF = '''
    @classmethod
    def of(cls, thread: LoopThread, inner: _replicated_log.ReplicatedLog) -> ReplicatedLog:
        """The twin of a log that runs in `thread`."""
        made = object.__new__(cls)
        Lifetime.__init__(made, inner, thread)
        return made
'''

ELECTION_EXTRA = '''
    @property
    def node(self) -> ReplicatedNode[list[Any], list[Any]]:
        """For its status, its members and reads of one's own."""
        return ReplicatedNode.of(self._thread, self._inner.node)
'''

HOST_EXTRA = '''
    @property
    def config(self) -> RaftConfig:
        """As it was given."""
        return self._inner.config

    @property
    def share(self) -> Callable[[Parts], Parts]:
        """For the `extend` of a log or node that is made by the user, with this host's `thread`.

        Close that before this host: what is left at the host's end stops with NodeFailed.
        """
        return self._inner.share

    def open_object(
        self,
        name: str,
        kind: Callable[..., Opened],
        *,
        members: Collection[str] | None = None,
        **options: Any,
    ) -> Opened:
        """As `open`, for a blocking object such as ReplicatedCounter; `options`: its own."""
        made: list[Opened] = []

        def inner(config: RaftConfig, **ports: Any) -> AsyncLifetime:
            made.append(kind(config, thread=self.thread, **ports))
            found: AsyncLifetime = made[0]._inner
            return found

        self._thread.run(self._inner.open_object(name, inner, members=members, **options))
        return made[0]
'''

LIFE = names("start close")
HOST_HEAD = '''"""Host: many groups in one process, for code without an event loop.

GENERATED by scripts/unasync_dledger.py from the async class; change that and run it again.

    with Host(config) as host:
        node = host.open("orders", Sum(), create=True)
        print(node.propose(1))
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from commitlog.files.system import OS_FILES, FileSystem
from dledger.blocking.lifetime import Lifetime
from dledger.blocking.loop_thread import LoopThread
from dledger.blocking.node import ReplicatedLog, ReplicatedNode
from dledger.config import RaftConfig
from dledger.machine import host as _host
from dledger.machine.settings import MachineSettings
from dledger.machine.state_machine import ReplicatedStateMachine
from dledger.replica.ports import StateMachine
from dledger.runtime.clock import Clock
from dledger.runtime.lifetime import Lifetime as AsyncLifetime
from dledger.runtime.parts import Parts

C = TypeVar("C")
R = TypeVar("R")
Opened = TypeVar("Opened", bound=Lifetime)
'''
NODE_HEAD = '''"""A state machine on a node, and its log, for code without an event loop.

GENERATED by scripts/unasync_dledger.py from the async classes; change those and run it again.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from commitlog.files.system import OS_FILES, Buffer, FileSystem
from dledger.blocking.changes import Changes
from dledger.blocking.lifetime import Lifetime
from dledger.blocking.loop_thread import Iterating, LoopThread
from dledger.config import RaftConfig
from dledger.core.configuration import Member
from dledger.core.types import Index
from dledger.errors import DledgerError, NodeFailed, ProposalTimedOut, SnapshotFailed
from dledger.machine import node as _node
from dledger.machine.applying import SlowApply
from dledger.machine.node import Consistency
from dledger.machine.settings import MachineSettings
from dledger.machine.state_machine import ReplicatedStateMachine
from dledger.machine.status import MachineStatus
from dledger.producers.durability import Durability
from dledger.replica.ports import StateMachine
from dledger.runtime import replicated_log as _replicated_log
from dledger.runtime.clock import Clock
from dledger.runtime.log_entry import LogEntry, LogStatus
from dledger.runtime.parts import Parts

C = TypeVar("C")
R = TypeVar("R")
T = TypeVar("T")
'''

OBJECTS_HEAD = '''"""The replicated objects for code without an event loop.

GENERATED by scripts/unasync_dledger.py from the async classes; change those and run it again.

    with ReplicatedCounter(config, create=True) as counter:
        print(counter.add(2))
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from dledger.blocking.lifetime import Lifetime
from dledger.blocking.loop_thread import Iterating, LoopThread
from dledger.blocking.node import ReplicatedNode
from dledger.blocking.replicated_object import ReplicatedObject
from dledger.config import RaftConfig
from dledger.machine.node import Consistency
from dledger.objects import counter as _counter
from dledger.objects import dictionary as _dictionary
from dledger.objects import election as _election
from dledger.objects import kv as _kv
from dledger.objects import lock as _lock
from dledger.objects.kv import _UNSET, Compare, Delete, Get, Lease, Put, Transacted
from dledger.objects.kv_machine import Change, Item
from dledger.objects.lock import Grant, Held

V = TypeVar("V")
'''

LEADERSHIP = '''
class Leadership:
    """While it is held. `token` rises with each leader: give it along with each write."""

    def __init__(self, thread: LoopThread, inner: _election.Leadership) -> None:
        self._thread, self._inner = thread, inner

    @property
    def token(self) -> int:
        """Larger than that of every leader before."""
        return self._inner.token

    @property
    def is_held(self) -> bool:
        """Certainly still held, as far as this machine's clock can tell."""
        return self._thread.call(lambda: self._inner.is_held)

    def wait_until_lost(self, timeout: float | None = None) -> None:
        """Until another may lead. Raises TimeoutError after `timeout` seconds."""
        self._thread.run(self._inner.wait_until_lost(), timeout)
'''

# module -> how it begins, its classes
MODULES: dict[str, tuple[str, tuple[Class, ...]]] = {
    "node.py": (
        NODE_HEAD,
        (
            Class(
                "ReplicatedLog",
                "dledger/runtime/replicated_log.py",
                names(
                    "append append_many transfer members add_member remove_member readmit_member "
                    "read read_barrier committed wait wait_for_leader is_leader leader applied "
                    "status"
                ),
                names("format propose append_at_once driver store apply state_is role_changed")
                | LIFE,
                LOG_EXTRA + LOG_OF,
                names("wait wait_for_leader"),
            ),
            Class(
                "ReplicatedNode",
                "dledger/machine/node.py",
                names("propose propose_again read failure is_leader leader applied status"),
                names("on_error apply role_changed") | LIFE,
                NODE_EXTRA,
            ),
        ),
    ),
    "host.py": (
        HOST_HEAD,
        (
            Class(
                "Host",
                "dledger/machine/host.py",
                names("open open_log config_of groups"),
                names("open_object share") | LIFE,
                HOST_EXTRA,
            ),
        ),
    ),
    "objects.py": (
        OBJECTS_HEAD + LEADERSHIP,
        (
            Class("ReplicatedCounter", "dledger/objects/counter.py", names("add value")),
            Class(
                "ReplicatedDict",
                "dledger/objects/dictionary.py",
                names("set update pop setdefault clear get items size"),
            ),
            Class(
                "ReplicatedLock",
                "dledger/objects/lock.py",
                names("try_acquire acquire renew release holder"),
                waits=names("acquire"),
            ),
            Class(
                "LeaderElection",
                "dledger/objects/election.py",
                names("campaign leader"),
                LIFE,
                ELECTION_EXTRA,
                waits=names("campaign"),
            ),
            Class(
                "KeyValueStore",
                "dledger/objects/kv.py",
                names(
                    "put delete compare_and_set transact compact get range prefix revision watch "
                    "grant renew revoke holding"
                ),
                LIFE,
            ),
        ),
    ),
}
#: What the value of an async context manager becomes.
TWIN_VALUES = {"Leadership": "Leadership(self._thread, value)"}
#: Classes with a twin: one that a coroutine returns is given as that.
TWIN_RESULTS = frozenset({"ReplicatedLog", "ReplicatedNode"})


def main(arguments: list[str]) -> int:
    """0: written, or equal with --check; 1: one differs; 2: usage."""
    if arguments not in ([], ["--check"]):
        print("usage: scripts/unasync_dledger.py [--check]", file=sys.stderr)
        return 2
    result = 0
    for module, (head, classes) in MODULES.items():
        target = TWINS / module
        text = formatted("\n\n".join([head, *map(write_class, classes)]), target)
        if not arguments:
            target.write_text(text, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != text:
            print(
                f"dledger/blocking/{module} is not what the async classes say; "
                "run scripts/unasync_dledger.py",
                file=sys.stderr,
            )
            result = 1
    return result


def write_class(one: Class) -> str:
    """One class; its methods in the order of the async one."""
    tree = ast.parse((ROOT / one.module).read_text(encoding="utf-8"))
    (found,) = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == one.name
    ]
    module = Path(one.module).stem
    bases = [ast.unparse(base) for base in found.bases]
    parameters = next((base[7:] for base in bases if base.startswith("Generic")), "")
    inner = f"_{module}.{one.name}{parameters}"
    lines = [
        f"class {one.name}({', '.join(bases)}):",
        f'    """{plain(ast.get_docstring(found))}"""',
    ]
    lines += ["", f"    _inner: {inner}", ""]
    seen = set()
    for node in found.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name == "__init__":
            lines += [*write_init(node, inner), "", *one.extra.splitlines(), ""]
        elif node.name in one.public:
            seen.add(node.name)
            lines += write_methods(node, node.name in one.waits)
        elif not node.name.startswith("_") and node.name not in one.internal:
            raise SystemExit(f"{one.name}.{node.name}: say in CLASSES whether it is public")
    if one.public - seen:
        raise SystemExit(f"{one.name} has no {', '.join(sorted(one.public - seen))}")
    return "\n".join(lines)


def write_init(node: ast.FunctionDef | ast.AsyncFunctionDef, inner: str) -> list[str]:
    """The constructor, with the thread beside what the async one takes."""
    call = f"{inner}({call_arguments(node.args)}{options(node.args)})"
    said = plain(ast.get_docstring(node, clean=False)).rstrip()
    said = f"{said}\n\n        " if said else ""
    return [
        f"    def __init__({with_keyword(node.args, 'thread: LoopThread | None = None')}) -> None:",
        f'        """{said}`thread`: shared with others; None: one of its own (lifetime.py).',
        '        """',
        f"        Lifetime.__init__(self, {call}, thread)",
    ]


def write_methods(node: ast.FunctionDef | ast.AsyncFunctionDef, waits: bool) -> Iterator[str]:
    """A method, or two, with signature and docstring."""
    decorators = [ast.unparse(item) for item in node.decorator_list]
    returns = plain(ast.unparse(node.returns)) if node.returns else "None"
    said = plain(ast.get_docstring(node, clean=False))
    arguments = ast.unparse(node.args)
    call = f"self._inner.{node.name}({call_arguments(node.args)})"
    timeout = ""
    if waits:
        arguments, timeout = with_keyword(node.args, "timeout: float | None = None"), ", timeout"
        said = f"{said.rstrip()}\n\n        `timeout`: seconds; then TimeoutError.\n        "

    def method(name: str, returned: str, text: str, *body: str) -> Iterator[str]:
        yield f"    def {name}({arguments}) -> {returned}:"
        if text:
            yield f'        """{text}"""'
        yield from (f"        {line}" for line in body)
        yield ""

    if "property" in decorators:
        yield "    @property"
        yield from method(
            node.name, returns, said, f"return self._thread.call(lambda: self._inner.{node.name})"
        )
    elif "contextlib.asynccontextmanager" in decorators:
        inside = re.fullmatch(r"Iterator\[(\w+)\]", returns)
        assert inside is not None, f"{node.name} says what its block is given"
        value = TWIN_VALUES.get(inside[1], "value")
        yield "    @contextlib.contextmanager"
        entered = f"with self._thread.entered({call}{timeout}) as value:"
        yield from method(node.name, returns, said, entered, f"    yield {value}")
    elif returns.startswith("Iterator["):
        returned = returns.replace("Iterator[", "Iterating[", 1)
        yield from method(node.name, returned, said, f"return Iterating(self._thread, {call})")
    elif isinstance(node, ast.AsyncFunctionDef):
        run = f"self._thread.run({call}{timeout})"
        if (twin := returns.partition("[")[0]) in TWIN_RESULTS:
            run = f"{twin}.of(self._thread, {run})"
        yield from method(node.name, returns, said, f"return {run}")
    elif returns.startswith("concurrent.futures.Future["):
        value = returns.removeprefix("concurrent.futures.Future[").removesuffix("]")
        later = f"self.{node.name}_nowait({call_arguments(node.args)})"
        yield from method(node.name, value, said, f"return self._thread.result({later})")
        text = f"As `{node.name}`, for many that are on their way at once."
        body = f"return self._thread.start(lambda: {call})"
        yield from method(f"{node.name}_nowait", returns, text, body)
    else:
        yield from method(node.name, returns, said, f"return self._thread.call(lambda: {call})")


def with_keyword(arguments: ast.arguments, keyword: str) -> str:
    """The signature with one more keyword argument, in front of `**options`."""
    options, arguments.kwarg = arguments.kwarg, None
    text = ast.unparse(arguments)
    arguments.kwarg = options
    if not arguments.kwonlyargs and not arguments.vararg:
        text += ", *"
    text += f", {keyword}"
    return f"{text}, **{ast.unparse(options)}" if options else text


def options(arguments: ast.arguments) -> str:
    """`**options` of a call that passes them on."""
    if arguments.kwarg is None:
        return ""
    return f", **{arguments.kwarg.arg}"


def plain(text: str | None) -> str:
    """Words about async code as words about blocking code."""
    text = sync_text(text or "").replace("; bound the wait by `asyncio.timeout`", "")
    text = re.sub(r"\bAwait the\b", "The", text)
    return text.replace("Called on the event loop", "Called in the loop's thread")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
