"""A `dledger` command, or tests, with one safety rule taken out.

python -m chaos.mutants.within majority-off-by-one sim --seed 0 -v
python -m chaos.mutants.within majority-off-by-one pytest tests/dledger/core/test_election.py
python -m chaos.mutants.within a-watch-skips-a-revision objects kv 0..5
"""

from __future__ import annotations

import os
import subprocess
import sys

from chaos.mutants.patch import install
from chaos.mutants.table import find
from chaos.tools.exit_codes import USAGE
from chaos.tools.pool import end_with_parent, for_a_child

_VARIABLE = "DLEDGER_RULE_TAKEN_OUT"
_OBJECTS = "python -m chaos.testing"


def rule_taken_out() -> str:
    """The mutant that this process runs, "" for the code as it is."""
    return os.environ.get(_VARIABLE, "")


def line_within(mutant: str, line: str) -> str:
    """The command line that runs a `dledger …` line with a rule taken out; "" takes none out."""
    if not mutant:
        return line
    within = f"python -m chaos.mutants.within {mutant}"
    if line.startswith(_OBJECTS):
        return line.replace(_OBJECTS, f"{within} objects", 1)
    return line.replace("dledger", within, 1)


def run_within(mutant: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own; its standard output is kept, errors are shown."""
    command = [sys.executable, "-m", "chaos.mutants.within", mutant, *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, env=for_a_child())


def main() -> None:
    """Takes the named rule out, then runs the command in this process; exits as that does."""
    end_with_parent()
    name, *words = sys.argv[1:]
    try:
        mutant = find(name)
    except KeyError:
        sys.stderr.write(f"there is no mutant {name}; dledger mutants --list names them\n")
        sys.exit(USAGE)
    install(mutant.patches)
    os.environ[_VARIABLE] = name
    if words[:1] == ["pytest"]:
        import pytest

        sys.exit(pytest.main(words[1:]))
    if words[:1] == ["objects"]:
        from chaos.testing.__main__ import main as objects

        sys.exit(objects(words[1:]))
    from cluster.cli import main as dledger

    sys.argv[:] = ["dledger", *words]
    dledger()


if __name__ == "__main__":
    main()
