"""Runs the machine's own tools: mkfs, mount, ip, nft."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator

COMMAND_SECONDS_MAX = 20.0
_BY_TERMINAL = (signal.SIGINT, signal.SIGTERM)


def run_tool(*words: str) -> str:
    """Runs a tool and returns its output. Raises OSError with the tool's own words if it fails.

    Ctrl-C on the terminal, or a SIGTERM to the whole group, must not end what unmounts a disk, so
    the tool gets a session of its own. It is a process of the group until it has one, with the
    signals' default effects, which is to die; so it is born with both blocked, and keeps that.
    """
    with _blocked():
        process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    with process:
        try:
            printed, complaints = process.communicate(timeout=COMMAND_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise OSError(f"{' '.join(words)} did not end") from error
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        reason = complaints.strip() or f"exit code {process.returncode}"
        raise OSError(f"{' '.join(words)} failed: {reason}")
    return printed


@contextlib.contextmanager
def _blocked() -> Iterator[None]:
    """Blocks SIGINT and SIGTERM in this thread, and in the processes that it starts meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _BY_TERMINAL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
