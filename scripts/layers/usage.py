"""What `--help` says of `scripts/check`, `test`, `interop` and `spark`."""

from __future__ import annotations

ASKED = frozenset({"--help", "-h"})

_ENDS = """\
The last line is `N passed, N failed, N skipped`. Exit code: 0 when nothing failed and at most
three tests were flaky, 1 when something failed, 2 when the machine cannot do it (no space, or
another run of this checkout)."""

_ENVIRONMENT = """\
  CI=true                     installs what tests need and fails those that are skipped as "needs …"
  TMPDIR=DIR                  where tests write; a whole run needs 6 GiB there, the long layers 12
  DLEDGER_TEST_MEMORY=0       the suite writes to the disk, also where 7 GiB of memory are free
  DLEDGER_TEST_CPU=N          says which N files and folders of tests took the most processor time
  DLEDGER_EVIDENCE=DIR        where long runs keep what they found, else
                              ~/.local/state/dledger/evidence
  DLEDGER_NO_UV=1, PYTHON=P   for the first run, which makes .venv: without uv, with this Python"""

HELP = {
    "check": f"""\
scripts/check: the gates. It fixes nothing (`ruff format .` and `ruff check --fix .` do).

  scripts/check               types, format, lint, import arrows, tests/architecture

{_ENDS}

Environment:
{_ENVIRONMENT}
""",
    "test": f"""\
scripts/test: every test in its short form, which is what CI runs.

  scripts/test                the gates, the suite on several workers, foreign clients, Spark
  scripts/test PATH...        these files, folders or tests, on two workers; pytest gets the rest:
                              scripts/test tests/dledger -k vote
  scripts/test --long         the long layers instead; goes on where it stopped on the same tree
  scripts/test --long PATH... the long tests of these

A test that fails is run once more, alone: passed then, it is flaky. What is wrong is listed at the
end and in .tools/failed-test. tests/README.md says which folder answers which question.
{_ENDS}

Environment:
{_ENVIRONMENT}
""",
    "interop": f"""\
scripts/interop: foreign clients against real clusters; builds their programs below .tools/ first.

  scripts/interop             all of tests/interop
  scripts/interop -k go       what pytest selects

{_ENDS}

Environment:
{_ENVIRONMENT}
""",
    "spark": f"""\
scripts/spark: tests in a real Spark; the first run makes .tools/spark (0.9 GB).

  scripts/spark               all of tests/pipeline/spark, the long ones too
  scripts/spark PATH...       only these

{_ENDS}

Environment:
  DLEDGER_SEEDS=0..200        for test_seeds.py: so many seeded runs of the sink, kept as evidence
{_ENVIRONMENT}
""",
}
