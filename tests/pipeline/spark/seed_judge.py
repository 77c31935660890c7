"""Judges one seeded run of the sink (seeds.py): each row stored once, or refused before the first.

A run computes the same batch twice. The second computation may be refused in one way only: the
checkpoint holds the way of reading, the second asks for another, and the source says so
(CheckpointError) before a task has had a row. Any other error is a failure of the run, also when
nothing was lost: a broken broker and a wrong plan end a query, too.
"""

from __future__ import annotations

from typing import Any

REFUSAL = "pipeline.source.offsets.CheckpointError"
#: What decides in which way a computation reads.
WAY = ("account", "older", "fetch")


def complaints(row: dict[str, Any]) -> list[str]:
    """What is wrong with a run, a sentence each.

    `row`, as seeds.py writes it: `lost`, `doubled`: rows. `rounds`: what was drawn for each
    computation that began. `attempts`: for each of these, attempts of tasks that had rows. `error`:
    class and sentence of what ended the last of them, "" when both came to their end.
    """
    found = [f"{row[what]} rows are {what}" for what in ("lost", "doubled") if row[what]]
    if len(row["attempts"]) != len(row["rounds"]):
        found.append("attempts were not counted for each computation")
    if not row["error"]:
        return found if len(row["rounds"]) == 2 else [*found, "the batch was not computed twice"]
    if len(row["rounds"]) != 2:
        return [*found, f"the first computation failed: {row['error']}"]
    if not row["error"].startswith(f"{REFUSAL}: "):
        found.append(f"the second computation failed, and not by a refusal: {row['error']}")
    if row["attempts"][1:] != [0]:
        found.append(f"the second computation ended after its first row: {row['error']}")
    first, second = ([drawn[what] for what in WAY] for drawn in row["rounds"])
    if first == second:
        found.append(f"the second computation reads as the first, and failed: {row['error']}")
    return found
