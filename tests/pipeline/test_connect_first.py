"""The workers' Python: it connects before pyspark is imported, and is Python in all else.

The other side is played by a socket here, as Spark plays it; `spark/test_late_worker.py` has Spark.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.connect_first import PROGRAM, worker_python
from tests.waiting import limit

#: Stands in for pyspark. Its import ends when the file `go` is there, or in ten minutes.
WORKER_UTIL = """
import os, time
for _ in range(60_000):
    if os.path.exists("go"):
        break
    time.sleep(0.01)
"""
RUNNER = """
import sys
from pyspark.worker_util import get_sock_file_to_executor
if __name__ == "__main__":
    with get_sock_file_to_executor(timeout=None) as file:
        file.write(repr((sys.argv[1:], file.read(5))).encode())
        file.flush()
"""


def _program() -> str:
    program = worker_python()
    assert Path(program).name == PROGRAM, "pip install -e . puts it beside the interpreter"
    return program


def _fake_pyspark(folder: Path) -> None:
    package = folder / "pyspark"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "worker_util.py").write_text(WORKER_UTIL)
    (package / "runner.py").write_text(RUNNER)


def _start(folder: Path, told: dict[str, str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **told, "PYTHONPATH": str(folder)}
    command = [_program(), "-m", "pyspark.runner", "word"]
    return subprocess.Popen(command, cwd=folder, env=environment)


def _go_on(folder: Path, worker: subprocess.Popen[bytes], connection: socket.socket) -> None:
    """pyspark's import ends, and the worker uses the connection that it had before."""
    connection.settimeout(limit(30))
    try:
        with connection, connection.makefile("rwb") as file:
            assert struct.unpack("!i", file.read(4)) == (worker.pid,)
            (folder / "go").touch()
            file.write(b"hello")
            file.flush()
            assert file.read() == b"(['word'], b'hello')"
        assert worker.wait(limit(30)) == 0
    finally:
        worker.kill()
        worker.wait()


def test_it_connects_before_pyspark_is_imported(tmp_path: Path) -> None:
    _fake_pyspark(tmp_path)
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(1)
        listening.settimeout(limit(30))
        worker = _start(tmp_path, {"PYTHON_WORKER_FACTORY_SOCK_PATH": path})
        try:
            connection, _ = listening.accept()
        except TimeoutError:
            worker.kill()
            raise
    _go_on(tmp_path, worker, connection)


@pytest.mark.parametrize(("answer", "code"), [(b"ok", 0), (b"err", 1)])
def test_over_tcp_it_tells_the_secret(tmp_path: Path, answer: bytes, code: int) -> None:
    _fake_pyspark(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(limit(30))
        told = {"PYTHON_WORKER_FACTORY_PORT": str(listening.getsockname()[1])}
        worker = _start(tmp_path, {**told, "PYTHON_WORKER_FACTORY_SECRET": "word of the day"})
        connection, _ = listening.accept()
    said = connection.recv(4 + 15, socket.MSG_WAITALL)
    assert said == struct.pack("!i", 15) + b"word of the day"
    connection.sendall(struct.pack("!i", len(answer)) + answer)
    if not code:
        _go_on(tmp_path, worker, connection)
    connection.close()
    assert worker.wait(limit(30)) == code


@pytest.mark.parametrize("module", ["pyspark.daemon", "platform"])
def test_all_else_is_left_to_python(tmp_path: Path, module: str) -> None:
    """The daemon is waited for without a limit, and forks the workers of tasks."""
    _fake_pyspark(tmp_path)
    (tmp_path / "pyspark" / "daemon.py").write_text("import sys; print(sys.executable)")
    environment = {**os.environ, "PYTHON_WORKER_FACTORY_PORT": "1", "PYTHONPATH": str(tmp_path)}
    command = [_program(), "-m", module]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    expected = sys.executable if module == "pyspark.daemon" else sys.platform.capitalize()
    assert done.stdout.startswith(expected)
