"""Where a long run of the sink keeps its rows, so that a stopped one goes on: a file for each code.

Rows of other code say nothing of this one: the file's name holds a hash of the sink and of all that
it imports.
"""

from __future__ import annotations

from pathlib import Path

from chaos.counts.code_key import imported_by, tree_key
from chaos.tools.evidence import evidence_file

ROOTS = ("pipeline.sink", "pipeline.source", "pyspark_dledger")


def results_file(name: str) -> Path:
    """The file `name` of the evidence folder for the code as it is; its folder is there."""
    key = tree_key(imported_by(ROOTS))[:12]
    found = evidence_file(f"{name}-{key}.jsonl")
    found.parent.mkdir(parents=True, exist_ok=True)
    return found
