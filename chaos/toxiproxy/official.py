"""The official server: found, built with Go, started and stopped.

$TOXIPROXY_URL           a server that runs already
toxiproxy-server         on the path
.tools/toxiproxy/server  what `build` has made
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from chaos.tools import go_builds
from chaos.toxiproxy.client import Toxiproxy, ToxiproxyError

VARIABLE = "TOXIPROXY_URL"
MODULE = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"  # @latest is of 2022
FOLDER = Path(__file__).parents[2] / ".tools" / "toxiproxy"
#: The gate builds it at the lowest priority, beside tests that keep both processors busy.
BUILD_SECONDS_MAX = 1500.0
START_SECONDS_MAX = 10.0
_GO_PLACES = ("/usr/local/go/bin", "/usr/lib/go/bin")
# Ends with us, however we end: the shell waits for the end of a pipe whose other end we hold.
_TIED = ("sh", "-c", '"$@" </dev/null & cat >/dev/null; kill $!; wait $!', "sh")


def find() -> str | None:
    """Path of the server's program, or the URL of one that runs already."""
    return (
        os.environ.get(VARIABLE)
        or shutil.which("toxiproxy-server")
        or shutil.which("server", path=str(FOLDER))
    )


def go() -> str | None:
    """Path of the Go tool."""
    return shutil.which("go") or shutil.which("go", path=os.pathsep.join(_GO_PLACES))


def build() -> str:
    """Build the server with Go into .tools/ (46 to 95 s alone, 280 MB). Raises OSError.

    A second caller waits for the build that is under way, and uses its result.
    """
    tool = go()
    if tool is None:
        raise OSError("no Go tool chain was found; install Go 1.23 or newer")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return shutil.which("server", path=str(FOLDER)) or _build(tool)


def _build(tool: str) -> str:
    try:
        done = subprocess.run(
            [tool, "install", MODULE],
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS_MAX,
            check=False,
            env=go_builds.environment(GOBIN=str(FOLDER)),
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"go install {MODULE} did not end in {BUILD_SECONDS_MAX:g} s") from error
    found = shutil.which("server", path=str(FOLDER))
    if done.returncode or found is None:
        raise OSError(f"go install {MODULE} failed: {done.stderr.strip()[-500:]}")
    return found


@contextlib.contextmanager
def running(program: str) -> Iterator[str]:
    """The URL of a server that runs for as long as the context lasts. Raises OSError."""
    if given := os.environ.get(VARIABLE):
        yield given.rstrip("/")
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [*_TIED, program, "-host", "127.0.0.1", "-port", str(port), "-proxy-metrics"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert server.stdin is not None, "it is a pipe"
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, server)
        yield url
    finally:
        server.stdin.close()
        server.wait()


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while True:  # bounded by the time
        try:
            Toxiproxy(url).version()
            return
        except ToxiproxyError as error:
            if server.poll() is not None or time.monotonic() > end:
                raise OSError(f"the toxiproxy server did not start: {error}") from error
            time.sleep(0.05)
