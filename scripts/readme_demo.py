"""The demo's output on the README's first screen: a recorded run, never typed by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN = "<!-- demo: a recorded run, written by scripts/gen-readme -->\n"
END = "<!-- end of demo -->\n"
SEED = "7"


def block(text: str) -> str:
    """What stands between the marks, without its indent."""
    inside = text.split(BEGIN)[1].split(END)[0]
    return "".join(line.removeprefix("    ") for line in inside.splitlines(keepends=True)).strip()


def with_block(text: str, output: str) -> str:
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    lines = [f"    {line}".rstrip() + "\n" for line in output.strip().splitlines()]
    return f"{before}{BEGIN}\n{''.join(lines)}\n{END}{after}"


def main() -> int:
    command = [sys.executable, "-m", "cluster.cli", "demo", "--seed", SEED]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        sys.stderr.write(run.stdout + run.stderr + "the demo failed; README.md is as it was\n")
        return 1
    README.write_text(with_block(README.read_text("utf-8"), run.stdout), "utf-8")
    sys.stdout.write(run.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
