"""Runs `dledger` as a user does, each command in a process of its own, without a start each time.

    run("ps", "-o", "json", env=…)            the same as `python -m cluster.cli ps -o json`
    run_module(module, "--config", …, env=…)  the same as `python -m <module> --config …`

A process that lives as long as the tests has imported the commands of `cluster`, and forks for
each command that is run. Arguments, environment, folder, stdin, stdout, stderr and exit code are
those of a process of its own, whose threads are waited for; saved are the start of Python, the
imports and the taking apart of what was imported, nine tenths of the work of most commands.
`fresh`: it has imported the command line alone, and the command imports what it needs itself.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.waiting import limit

ROOT = Path(__file__).resolve().parent.parent
_REQUEST_BYTES_MAX = 1 << 17
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
            request = json.dumps([arguments, dict(env), str(cwd)]).encode()
            descriptors = [reader, out.fileno(), err.fileno(), theirs.fileno()]
            forker.ask(request, descriptors)
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


class _Forker:
    """The process that forks, from this side; used by one thread at a time."""

    def __init__(self, module: str, fresh: bool) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * _REQUEST_BYTES_MAX)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.command_line"),
                    *(str(theirs.fileno()), module, "fresh" if fresh else "warm"),
                ],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def ask(self, request: bytes, descriptors: list[int]) -> None:
        assert len(request) <= _REQUEST_BYTES_MAX
        with self._lock:
            socket.send_fds(self._socket, [request], descriptors)

    def close(self) -> None:
        """It ends when nobody can ask it any more."""
        self._socket.close()
        self._process.wait()


@functools.cache
def _forker(module: str, fresh: bool = False) -> _Forker:
    return _Forker(module, fresh)


def _fork_for_each(asked: socket.socket) -> list[str]:
    """Serve requests; returns in the process of each command, with its arguments."""
    while True:  # until the session of tests has ended
        request, descriptors, _, _ = socket.recv_fds(asked, _REQUEST_BYTES_MAX, 4)
        _reap()
        if not request:
            sys.exit(0)
        if os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        asked.close()
        stdin, stdout, stderr, answer = descriptors
        arguments, environment, folder = json.loads(request)
        if pid := os.fork():
            # Waits for the command and says how it ended, as a shell would.
            for descriptor in (0, 1, 2, stdin, stdout, stderr):
                os.close(descriptor)
            os.write(answer, b"%16d" % pid)
            _, status = os.waitpid(pid, 0)
            os.write(answer, b"%16d" % os.waitstatus_to_exitcode(status))
            os._exit(0)
        os.close(answer)
        for to, descriptor in enumerate((stdin, stdout, stderr)):
            os.dup2(descriptor, to)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        found: list[str] = arguments
        return found


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
    if name == "cluster.cli" and how == "warm":
        from cluster.commands.registry import COMMANDS

        for command in COMMANDS.values():
            importlib.import_module(command.target.partition(":")[0])
    assert module.__file__ is not None
    sys.argv = [module.__file__, *_fork_for_each(socket.socket(fileno=int(descriptor)))]
    # What click calls the program by.
    sys.modules["__main__"].__package__ = name.rpartition(".")[0]
    _end(_exit_code(module.main))
