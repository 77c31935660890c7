"""Runs `dledger` as a user does, each command in a process of its own, without a start each time.

    run("ps", "-o", "json", env=…)            the same as `python -m cluster.cli ps -o json`
    run_module(module, "--config", …, env=…)  the same as `python -m <module> --config …`
    start(["cluster.local.node_main", …], …)  the same with Popen, for a process that goes on

A process that lives as long as the tests has imported the commands of `cluster`, and forks for
each command that is run. Arguments, environment, folder, stdin, stdout, stderr and exit code are
those of a process of its own, whose threads are waited for; saved are the start of Python, the
imports and the taking apart of what was imported, nine tenths of the work of most commands.
`fresh`: it has imported the command line alone, and the command imports what it needs itself.
Nodes and name servers that a command starts (`up`, `start`) are forked in the same way.

    this process ── request, descriptors ──► forker ── fork ──► waiter ── fork ──► the command
         ▲                                                        │
         └──────────────── process id, then exit code ────────────┘
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cluster.local import processes
from tests.waiting import limit

ROOT = Path(__file__).resolve().parent.parent
_REQUEST_BYTES_MAX = 1 << 17
#: A process of these that is forked has Python's start and a second of imports behind it.
STARTED = ("cluster.local.node_main", "cluster.local.nameserver_main")
#: What a node imports while it starts its admin HTTP (node_admin.py), behind all else.
_OF_A_RUNNING_NODE = (
    "cluster.broker.admin.admin_http",
    "cluster.console.http",
    "cluster.metrics.collector",
)
_STARTING = frozenset({"up", "member", "demo"})  # commands that may start these
END_SECONDS_MAX = 30.0  # a command that a test left running keeps its forker
_STDIN_BYTES_MAX = 1 << 16  # what a pipe holds: it is filled before the command is there to read


def run(
    *arguments: str,
    env: Mapping[str, str],
    stdin: str = "",
    cwd: Path = ROOT,
    seconds: float = 60.0,
    fresh: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command of `dledger` to its end.

    Raises:
        subprocess.TimeoutExpired: after `seconds` of a quiet machine; the command is ended then.
    """
    return _run(_forker("cluster.cli", fresh), arguments, env, stdin, cwd, seconds)


def run_module(
    module: str, *arguments: str, env: Mapping[str, str], seconds: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run the `main` of a module to its end; it may return an exit code. Raises as `run` does."""
    return _run(_forker(module), arguments, env, "", ROOT, seconds)


def _run(
    forker: _Forker,
    arguments: tuple[str, ...],
    env: Mapping[str, str],
    stdin: str,
    cwd: Path,
    seconds: float,
) -> subprocess.CompletedProcess[str]:
    assert len(stdin.encode()) <= _STDIN_BYTES_MAX, "give it a process of its own"
    ours, theirs = socket.socketpair()
    reader, writer = os.pipe()
    with ours, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with theirs, os.fdopen(reader, "rb"), os.fdopen(writer, "wb") as given:
            given.write(stdin.encode())
            given.close()
            descriptors = [theirs.fileno(), reader, out.fileno(), err.fileno()]
            starts = bool(arguments) and arguments[0] in _STARTING
            forkers = [_forker(one) for one in STARTED] if starts else []
            forker.ask(arguments, env, cwd, descriptors, forkers=forkers)
        pid = int(ours.recv(16))
        ours.settimeout(limit(seconds))
        try:
            code = int(ours.recv(16))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(arguments, limit(seconds)) from None
        out.seek(0)
        err.seek(0)
        said, complained = (file.read().decode("utf-8", "replace") for file in (out, err))
        return subprocess.CompletedProcess(arguments, code, said, complained)


class Started(subprocess.Popen[bytes]):
    """A process that a forker started, which its waiter waits for: to be used as any other Popen.

    Its `pid` is not of a child of this process. Signals reach it until the waiter has seen its end.
    """

    def __init__(self, arguments: Sequence[str], answer: socket.socket) -> None:
        self.args = arguments
        self.stdin = self.stdout = self.stderr = None
        self.returncode: int | None = None  # type: ignore[assignment]
        self._answer = answer
        self.pid = int(answer.recv(16))

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            looked = select.poll()
            looked.register(self._answer, select.POLLIN)
            if not looked.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            # Nothing comes when the waiter was killed itself.
            self.returncode = int(self._answer.recv(16) or -signal.SIGKILL)
            self._answer.close()
        return self.returncode

    def __del__(self, *_: object) -> None:
        self._answer.close()


def start(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    output: int,
    inherited: Sequence[int] = (),
    cwd: Path = ROOT,
    forker: _Forker | None = None,
) -> Started:
    """Start the module `arguments[0]` with the rest as its arguments, in a session of its own.

    `output`: the descriptor of stdout and stderr; stdin is empty. `inherited`: descriptors whose
    numbers are the last arguments; the process has them under other numbers, and is told those.
    """
    module, *rest = arguments
    ours, theirs = socket.socketpair()
    with theirs, open(os.devnull, "rb") as empty:
        descriptors = [theirs.fileno(), empty.fileno(), output, output]
        forker = forker or _forker(module)
        forker.ask(rest, env, cwd, descriptors, inherited=inherited, detached=True)
    return Started(arguments, ours)


def spawn_with(forkers: Mapping[str, _Forker]) -> processes.Spawn:
    """What `cluster.local.processes.spawn` becomes: processes of STARTED are forked."""

    def spawn(
        arguments: Sequence[str],
        output: int,
        inherited: Sequence[int],
        environment: Mapping[str, str],
    ) -> subprocess.Popen[bytes]:
        if arguments[0] not in STARTED:
            return processes.spawn_anew(arguments, output, inherited, environment)
        return start(
            arguments,
            env=environment,
            output=output,
            inherited=inherited,
            cwd=Path.cwd(),
            forker=forkers.get(arguments[0]),
        )

    return spawn


class _Forker:
    """A process that forks, from this side; used by one thread of a process at a time."""

    def __init__(self, asked: socket.socket) -> None:
        """`asked`: the other end is the process's; commands that it forks may have it, too."""
        self.socket = asked
        self._lock = threading.Lock()

    @classmethod
    def new(cls, module: str, fresh: bool) -> _Forker:
        """Start one that ends when this process does."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * _REQUEST_BYTES_MAX)
        with theirs:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.command_line"),
                    *(str(theirs.fileno()), module, "fresh" if fresh else "warm"),
                ],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )

        def close() -> None:
            ours.close()
            try:
                process.wait(END_SECONDS_MAX)  # it ends when no process can ask it any more
            except subprocess.TimeoutExpired:
                print(f"a command that {module} started was left behind", file=sys.stderr)
                process.kill()
                process.wait()

        atexit.register(close)
        return cls(ours)

    def ask(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        descriptors: list[int],
        *,
        inherited: Sequence[int] = (),
        forkers: Sequence[_Forker] = (),
        detached: bool = False,
    ) -> None:
        """`descriptors`: where to answer, stdin, stdout, stderr.

        `inherited`: those that the last arguments name. `forkers`: of STARTED, for the command.
        """
        assert list(arguments[len(arguments) - len(inherited) :]) == list(map(str, inherited))
        asked = [list(arguments), dict(env), str(cwd), detached, len(forkers)]
        request = json.dumps(asked).encode()
        assert len(request) <= _REQUEST_BYTES_MAX
        given = [*descriptors, *inherited, *(one.socket.fileno() for one in forkers)]
        with self._lock:
            socket.send_fds(self.socket, [request], given)


@functools.cache
def _forker(module: str, fresh: bool = False) -> _Forker:
    return _Forker.new(module, fresh)


def _fork_for_each(asked: socket.socket) -> list[str]:
    """Serve requests; returns in the process of each command, with its arguments."""
    while True:  # until the session of tests has ended
        request, descriptors, _, _ = socket.recv_fds(asked, _REQUEST_BYTES_MAX, 10)
        _reap()
        if not request:
            sys.exit(0)
        if os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        asked.close()
        answer, stdin, stdout, stderr, *inherited = descriptors
        arguments, environment, folder, detached, forkers = json.loads(request)
        if pid := os.fork():
            # Waits for the command and says how it ended, as a shell would.
            for descriptor in (0, 1, 2, *descriptors[1:]):
                os.close(descriptor)
            os.write(answer, b"%16d" % pid)
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            assert ended is not None
            signalled = ended.si_code != os.CLD_EXITED
            code = -ended.si_status if signalled else ended.si_status
            with contextlib.suppress(BrokenPipeError):  # who asked has ended: `dledger up`
                os.write(answer, b"%16d" % code)
            if detached:
                os.read(answer, 1)  # as with Popen, its number is its own until it was asked for
            os.waitpid(pid, 0)
            os._exit(0)
        os.close(answer)
        if detached:
            os.setsid()
        for to, descriptor in enumerate((stdin, stdout, stderr)):
            os.dup2(descriptor, to)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        if forkers:
            sockets = [
                socket.socket(fileno=inherited.pop(-forkers)) for forkers in range(forkers, 0, -1)
            ]
            known = dict(zip(STARTED, map(_Forker, sockets), strict=True))
            processes.spawn = spawn_with(known)
        return [*arguments[: len(arguments) - len(inherited)], *map(str, inherited)]


def _exit_code(main: Callable[[], int | None]) -> int:
    """Of a process that runs `main`: what it asks for, or 1 with its traceback on stderr."""
    try:
        return main() or 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1


def _end(code: int) -> None:
    """As at the end of a process: threads are waited for, what was printed is written."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    sys.stdout.flush()
    if not sys.stderr.closed:
        sys.stderr.flush()
    os._exit(code)


def _reap() -> None:
    """Take note of those that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        pass


if __name__ == "__main__":
    descriptor, name, how = sys.argv[1:]
    module = importlib.import_module(name)
    if name == "cluster.local.node_main":
        for used in _OF_A_RUNNING_NODE:
            importlib.import_module(used)
        accel = importlib.import_module("commitlog.records.accel")
        accel.load()
        accel.unload()  # a node loads it by itself, in no time now
    if name == "cluster.cli" and how == "warm":
        from cluster.commands.registry import COMMANDS

        for command in COMMANDS.values():
            importlib.import_module(command.target.partition(":")[0])
    gc.freeze()  # a process that is forked does not look through what is here already
    assert module.__file__ is not None
    sys.argv = [module.__file__, *_fork_for_each(socket.socket(fileno=int(descriptor)))]
    # What click calls the program by.
    sys.modules["__main__"].__package__ = name.rpartition(".")[0]
    _end(_exit_code(module.main))
