"""Where somebody new sits: a fresh home and folder, our commands in PATH, their own network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.waiting import limit, wait_until

from .pages import ROOT, matches


class Desk:
    """Runs what is typed at one desk.

    Args:
        folder: fresh; `home` and `work` are made in it.
        network: words before each command, from `own_network`.
    """

    def __init__(self, folder: Path, network: Sequence[str]) -> None:
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self._network = list(network)

    def environment(self) -> dict[str, str]:
        """What a new user's shell has, and nothing that this run of tests has set."""
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        return {
            "PATH": path,
            "HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "LANG": "C.UTF-8",
            "COLUMNS": "100",
            # A slow machine would add lines that no page shows.
            "DLEDGER_PROGRESS": "no",
            **{name: value for name, value in os.environ.items() if name.startswith("COV")},
        }

    def type(self, command: str, seconds: float = 60.0) -> tuple[int, str]:
        """Run a command line as a shell does; its exit code, and all that it printed.

        It writes into a file: what it leaves running may hold a pipe for ever.
        """
        said = self.work.parent / "said"
        with said.open("wb") as out:
            ended = subprocess.run(
                [*self._network, "bash", "-c", command],
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                timeout=limit(seconds),
                check=False,
            )
        return ended.returncode, said.read_text("utf-8", errors="replace")

    def run(self, program: Path, shown: str | None = None, *, is_endless: bool = False) -> str:
        """Run a page's program in its folder; what it printed.

        One that is endless is ended as Ctrl-C does, when it has printed what its page shows. Raises
        AssertionError unless it ends well.
        """
        output = program.with_suffix(".said")

        def said() -> str:
            return output.read_text("utf-8", errors="replace")

        with output.open("wb") as out:
            process = subprocess.Popen(
                [*self._network, sys.executable, "-W", "error", str(program)],
                cwd=program.parent,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.environment(),
            )
            try:
                if is_endless:
                    assert shown is not None, f"{program.name}: its page shows nothing to wait for"
                    wait_until(
                        lambda: process.poll() is not None or matches(shown, said()),
                        f"{program.name} prints what its page shows",
                        60.0,
                    )
                    process.send_signal(signal.SIGINT)
                code = process.wait(limit(60.0))
            finally:
                process.kill()
                process.wait()
        assert code == 0, said()
        return said()
