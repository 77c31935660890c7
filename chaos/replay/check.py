"""`dledger chaos check`: a run's folder, judged again from its files.

    ended.json lists the evidence ─► all there, as it was written ─► judged: the word counts
                                 └► missing, cut, changed ───────► judged as far as it goes: unknown

What was cut away may have been what was wrong, and what is left may look wrong for the lack of it.
So anomalies in such evidence are shown, and the word is unknown all the same.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from chaos.checkers.verdict import Word
from chaos.live.evidence_files import DAMAGE, VERDICT, sentence, wrong_with
from chaos.live.json_files import read_json
from chaos.live.judgement import Judgement, judge_run
from chaos.live.supervisor import ANOMALIES_SHOWN_MAX
from chaos.replay.again import judge_simulated
from chaos.replay.folder import is_simulated
from chaos.report.again import read_evidence
from chaos.report.recorded import read_run
from cluster.commands.output import report_option, to_json

UNLISTED = "an earlier release wrote this folder without a list of its files: taken as they are"


@click.command()
@click.argument("target", type=click.Path(path_type=Path, exists=True))
@report_option
def check(target: Path, output: str) -> None:
    """Judge a run's folder again: history, logs, elections, availability, faults.

    A simulated run's: history, logs and elections. Evidence that is missing, or is not as the run
    wrote it, makes the word unknown.
    """
    root = target if target.is_dir() else target.parent
    wrong, listed = wrong_with(root)
    try:
        word, said = _judged(root, wrong) if wrong else _trusted(root, listed=listed)
    except DAMAGE as error:
        if listed and _is_readable(root):
            raise  # nothing is wrong with the evidence: it is the judge
        raise click.UsageError(
            f"{target} is no folder of a run, or is damaged: {sentence(error)}"
        ) from error
    if output == "json":
        click.echo(to_json(said))
    else:
        for anomaly in said["anomalies"][:ANOMALIES_SHOWN_MAX]:
            click.echo(f"{anomaly['name']}: {anomaly['detail']}")
        for reason in said["unknown_because"][:ANOMALIES_SHOWN_MAX]:
            click.echo(f"unknown: {reason}")
        for name, reason in said["not_checked"].items():
            click.echo(f"not checked: {name}: {reason}")
        click.echo("  ".join(f"{name} {said[name]}" for name in list(said)[:7]))
    sys.exit(word.value)


def _is_readable(root: Path) -> bool:
    """Whether each line and field of a folder is one of a run's."""
    try:
        read_run(root) if is_simulated(root) else read_evidence(root)
    except DAMAGE:
        return False
    return True


def _trusted(root: Path, *, listed: bool) -> tuple[Word, dict[str, Any]]:
    """The word, and a summary as in verdict.json."""
    judgement = _judge(root)
    said = judgement.summary
    if listed or not (root / VERDICT).exists():
        return judgement.word, said
    said["not_checked"] = said.get("not_checked", {}) | {"evidence": UNLISTED}
    wrong = _counted_otherwise(said, read_json(root / VERDICT))
    return _doubted(judgement, wrong) if wrong else (judgement.word, said)


def _judged(root: Path, wrong: Sequence[str]) -> tuple[Word, dict[str, Any]]:
    """The same of evidence with which something is wrong."""
    try:
        return _doubted(_judge(root), wrong)
    except DAMAGE as error:
        why = sentence(error)
        if not any(why in one for one in wrong):
            wrong = [*wrong, f"what is left cannot be judged: {why}"]
        return Word.UNKNOWN, _nothing(wrong)


def _doubted(judgement: Judgement, wrong: Sequence[str]) -> tuple[Word, dict[str, Any]]:
    reasons = [*wrong, *judgement.reasons]
    if judgement.verdict.anomalies:
        reasons.append(
            "anomalies in evidence that is not as the run left it may come of what is missing"
        )
    said = judgement.summary | {"verdict": "unknown", "unknown_because": reasons}
    return Word.UNKNOWN, said


def _judge(root: Path) -> Judgement:
    return judge_simulated(root) if is_simulated(root) else judge_run(*read_evidence(root))


def _counted_otherwise(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[str]:
    """All that can tell of a folder without a list whether lines are missing: the verdict's counts.

    `now`, `then`: summaries of the evidence as it is, and by the run itself.
    """
    counts = (
        ("history.jsonl", "operations", now["operations"], then.get("operations")),
        ("replicas.json", "messages", now["replicas"], then.get("replicas")),
        ("faults.jsonl", "faults", *(_carried_out(said) for said in (now, then))),
    )
    return [
        f"{name} has other {what} than the run counted: {found}, and not {was}"
        for name, what, found, was in counts
        if type(was) is type(found) and found != was
    ]


def _carried_out(said: Mapping[str, Any]) -> Any:
    faults = said.get("faults")
    return faults.get("carried_out") if isinstance(faults, dict) else None


def _nothing(reasons: Sequence[str]) -> dict[str, Any]:
    counts = dict.fromkeys(("acked", "lost", "doubled", "reordered", "others"), 0)
    empty: dict[str, Any] = {"anomalies": [], "not_checked": {}}
    return {"verdict": "unknown", **counts, "unknown_because": list(reasons), **empty}
