"""The matrix in README.md is what the tests demand: + must pass, . must fail (pending.toml).

DLEDGER_WRITE_MATRIX=1 writes it.
"""

from __future__ import annotations

import os
from pathlib import Path

from . import (
    test_access,
    test_cpp,
    test_failover,
    test_go,
    test_java,
    test_mqadmin,
    test_node,
    test_reconnects,
)
from .conftest import Case
from .harness.pending import pending

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- matrix: made by test_matrix.py -->\n", "<!-- end of matrix -->\n"

COLUMNS: dict[str, list[Case]] = {
    "Java 4.9.8": [case for case in test_java.ALL if case.version == "4.9.8"],
    "Java 5.3.3": [case for case in test_java.ALL if (case.version, case.mode) == ("5.3.3", "")],
    "5.3.3 binary": [case for case in test_java.ALL if case.mode == "binary"],
    "Java 5.5.0": [case for case in test_java.ALL if case.version == "5.5.0"],
    "Go 2.1.2": [Case("go", name) for name in [*test_go.SHARED, *test_go.OWN]],
    "ali-ons 3.12.0": [Case("node", name) for name in [*test_node.OWN, *test_node.SHARED]],
    "C++ 0.4.4": [Case("cpp", name) for name in test_cpp.SCENARIOS],
}
for _version in test_access.VERSIONS:
    COLUMNS[f"Java {_version}"] += [
        Case("access", name, _version) for name in ("acl", "tls", "quota")
    ]
for _case in test_reconnects.ALL:
    COLUMNS[_case.version].append(_case)


def mark(case: Case) -> str:
    return "." if pending(case.client, case.scenario, case.version) else "+"


def matrix() -> str:
    marks = {name: {case.scenario: mark(case) for case in cs} for name, cs in COLUMNS.items()}
    scenarios = list(dict.fromkeys(name for column in marks.values() for name in column))
    rows = [
        "| scenario | " + " | ".join(marks) + " |",
        "|---" * (len(marks) + 1) + "|",
        *(
            "| " + " | ".join([name, *(column.get(name, "") for column in marks.values())]) + " |"
            for name in scenarios
        ),
        "",
    ]
    lines = [mark(Case("mqadmin", line)) for line in test_mqadmin.LINES]
    bars = [mark(Case("failover", name)) for name in [*test_failover.CHECKS, "move_costs_nothing"]]
    rows += [
        f"mqadmin {test_mqadmin.VERSION}: {lines.count('+')} of {len(lines)} lines; "
        f"leaders killed or moved: {bars.count('+')} of {len(bars)} demands.",
        "",
    ]
    return "\n".join(rows)


def test_the_matrix_is_what_is_demanded() -> None:
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + BEGIN + matrix() + END + after
    if os.environ.get("DLEDGER_WRITE_MATRIX"):
        README.write_text(wanted, encoding="utf-8")
    assert README.read_text(encoding="utf-8") == wanted, "write it with DLEDGER_WRITE_MATRIX=1"
