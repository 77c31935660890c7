"""`dledger-spark-python`: the Python that Spark's workers run in; it connects before it imports.

    PYSPARK_PYTHON=/venv/bin/dledger-spark-python

A streaming query keeps one Python process on the driver that knows its source. Spark starts it and
waits ten seconds for its connection; then the query ends with "Python worker failed to connect
back". That limit is a number in Spark's code (`PythonWorkerFactory.createSimpleWorker`), which no
setting changes, and the process imports pyspark, numpy and pyarrow before it connects: 0.6 s of
processor time, and the ten seconds go by when twenty such processes start on one core. This program
connects after 0.05 s of it and imports then; Spark waits for what follows without a limit.

It is Python with that one difference: workers of tasks are forked by a daemon that Spark waits for,
so they, and all else, are handed to the interpreter itself.
"""

from __future__ import annotations

import os
import runpy
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

PROGRAM = "dledger-spark-python"
_PORT, _SOCKET = "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SOCK_PATH"
_SECONDS = "SPARK_AUTH_SOCKET_TIMEOUT"


def worker_python() -> str:
    """The program for PYSPARK_PYTHON: this one if pip put it beside the interpreter, else that."""
    program = Path(sys.executable).with_name(PROGRAM)
    return str(program) if os.access(program, os.X_OK) else sys.executable


def main() -> None:
    """Connects if Spark waits for this process, then is Python.

    Raises OSError when Spark does not listen any more, EOFError when it refuses the secret.
    """
    arguments = sys.argv[1:]
    if not _is_waited_for(arguments):
        os.execv(sys.executable, [sys.executable, *arguments])
    file, connection = _connect()
    from pyspark import worker_util

    @contextmanager
    def connected(timeout: int | None = -1) -> Iterator[IO[bytes]]:
        """Stands in for pyspark's function, which connects; `timeout` as there: -1 keeps it."""
        if timeout is None or timeout > 0:
            connection.settimeout(timeout)
        try:
            yield file
        finally:
            file.close()

    worker_util.get_sock_file_to_executor = connected
    sys.argv = arguments[1:]
    sys.path[0] = os.getcwd()  # as `python -m` has it; it was the folder of this program
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def _is_waited_for(arguments: Sequence[str]) -> bool:
    """True for `-m pyspark.…` that is told where to connect. The daemon is told by its own name."""
    called = len(arguments) >= 2 and arguments[0] == "-m" and arguments[1].startswith("pyspark.")
    told = _SOCKET in os.environ or _PORT in os.environ
    return called and told and arguments[1] != "pyspark.daemon"


def _connect() -> tuple[IO[bytes], socket.socket]:
    """The connection after its first words: the secret (over TCP), then this process's number."""
    path = os.environ.get(_SOCKET)
    if path is not None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        where: str | tuple[str, int] = path
    else:
        is_new = os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true"
        connection = socket.socket(socket.AF_INET6 if is_new else socket.AF_INET)
        where = ("::1" if is_new else "127.0.0.1", int(os.environ[_PORT]))
    connection.settimeout(int(os.environ.get(_SECONDS, "15")))
    connection.connect(where)
    size = int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))
    file = cast(IO[bytes], connection.makefile("rwb", size))
    if path is None:
        secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
        file.write(struct.pack("!i", len(secret)) + secret)
        file.flush()
        (size,) = struct.unpack("!i", _exactly(file, 4))
        if _exactly(file, size) != b"ok":
            raise EOFError("Spark refused the secret of this worker; is it of another session?")
    file.write(struct.pack("!i", os.getpid()))
    file.flush()
    return file, connection


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError("Spark closed the connection of this worker; it may have given up waiting")
    return data
