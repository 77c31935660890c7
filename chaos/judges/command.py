"""`dledger chaos porcupine RUN`: the third judge about a run's folder.

Exit codes: 0 valid, 1 invalid, 2 unknown: no Go, no order found in time, too many operations, or
evidence that is not as the run left it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from chaos.checkers.beginnings import with_deleted
from chaos.checkers.blind import with_values
from chaos.checkers.deferred import as_appends
from chaos.checkers.levels import as_unknown
from chaos.checkers.verdict import Word
from chaos.history import from_json
from chaos.judges.porcupine.judge import Answer, Model, PorcupineError, Question, ask, build
from chaos.live.evidence_files import VERDICT, read_ended, read_replicas, wrong_with
from chaos.live.json_files import read_json, read_rows
from chaos.tools.numbers import DURATION
from cluster.commands.output import report_option, to_json

BUILT = Path(__file__).resolve().parents[2] / ".tools" / "judges"


@click.command("porcupine")
@click.argument("target", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--seconds", type=DURATION, default=60.0, show_default=True, help="Patience.")
@report_option
def porcupine(target: Path, seconds: float, output: str) -> None:
    """Let porcupine judge a run's appends and reads, with and without final logs (needs Go)."""
    if wrong := wrong_with(target)[0]:
        click.echo(f"unknown: {'; '.join(wrong)}", err=True)
        sys.exit(Word.UNKNOWN.value)
    try:
        begins, logs = _log_begins(target), read_replicas(target)
        written = as_appends(read_rows(target / "history.jsonl", from_json))
        history = list(with_values(written, logs, begins))
        replicas = {
            node: {
                queue: with_deleted([op for op in history if op.log == queue], log, begins)
                for queue, log in queues.items()
            }
            for node, queues in logs.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise click.UsageError(
            f"{target} is no folder of a run: {error}; name one that dledger chaos run has made"
        ) from error
    models: tuple[Model, ...] = ("queue", "register")
    try:
        program = build(BUILT)
        question = Question(target.name, as_unknown(history), replicas)
        answers = {
            model: ask(program, [question], model=model, seconds_max=seconds)[0] for model in models
        }
    except PorcupineError as error:
        click.echo(f"skipped: {error}", err=True)
        sys.exit(Word.UNKNOWN.value)
    if output == "json":
        click.echo(to_json({model: _fields(answer) for model, answer in answers.items()}))
    else:
        for model, answer in answers.items():
            because = f"   {answer.because}" if answer.because else ""
            operations = f"{answer.operations} operations"
            click.echo(f"{model:9} {answer.word.name:8} {operations}{because}")
    sys.exit(_worst(list(answers.values())).value)


def _log_begins(root: Path) -> int:
    """Address below which messages were deleted; an earlier release told it with its verdict."""
    said = read_ended(root) or read_json(root / VERDICT)
    return int(said.get("log_begins", 0))


def _fields(answer: Answer) -> dict[str, object]:
    return {
        "verdict": answer.word.name.lower(),
        "operations": answer.operations,
        "because": answer.because,
    }


def _worst(answers: list[Answer]) -> Word:
    words = {answer.word for answer in answers}
    return next(word for word in (Word.INVALID, Word.UNKNOWN, Word.VALID) if word in words)
