"""Runs the machine's own tools: mkfs, mount, ip, nft."""

from __future__ import annotations

import subprocess

COMMAND_SECONDS_MAX = 20.0


def run_tool(*words: str) -> str:
    """Run one; what it printed. Raises OSError, with its own words, when it fails.

    In a session of its own: Ctrl-C on the terminal must not end what unmounts a disk.
    """
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{' '.join(words)} did not end") from error
    if done.returncode:
        raise OSError(f"{' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout
