"""`docs/reference/errors.md`: every error that callers meet, exit codes, response codes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

import cluster.errors
import commitlog.errors
import dledger.errors
from cluster.commands import errors as command_errors
from cluster.protocol.codes import CODE_BY_EXCEPTION, ResponseCode
from cluster.reference.markdown import code, table
from commitlog.advice import Advised

_HEAD = """\
# Errors

Every error says what happened and one thing to try, whether the call may be repeated, and whether
it is certain that it did not happen. Made by `scripts/gen-conf` from the classes.

## Exit codes

"""
_MODULES: tuple[tuple[ModuleType, str], ...] = (
    (cluster.errors, "Errors of the client, and answers of brokers"),
    (dledger.errors, "Errors of the log"),
    (commitlog.errors, "Errors of the local store"),
)


def errors_md() -> str:
    """The page."""
    exits = inspect.getdoc(command_errors) or ""
    block = exits.split("\n\n")[1]
    parts = [f"{_HEAD}```text\n{inspect.cleandoc(block)}\n```\n"]
    for module, title in _MODULES:
        heads = ("error", "repeat it?", "done?", "code", "meaning", "try")
        parts.append(f"## {title}\n\n`{module.__name__}`\n\n{table(heads, _rows(module))}")
    return "\n".join(parts)


def _rows(module: ModuleType) -> Iterator[tuple[str, ...]]:
    for name, kind in vars(module).items():
        own = isinstance(kind, type) and issubclass(kind, Advised)
        if not own or kind.__module__ != module.__name__:
            continue
        meaning = (inspect.getdoc(kind) or "").split("\n\n")[0]
        outcome = getattr(kind, "outcome", None)
        yield (
            code(name),
            "yes" if getattr(kind, "retriable", False) is True else "no",
            "" if outcome is None else _certainty(outcome.value),
            _code(kind),
            meaning,
            getattr(kind, "advice", ""),
        )


def _certainty(outcome: str) -> str:
    return {"not done": "certainly not", "unknown": "perhaps", "done": "yes"}[outcome]


def _code(kind: type) -> str:
    found: ResponseCode | None = CODE_BY_EXCEPTION.get(kind)
    return "" if found is None else f"{found.value} `{found.name}`"
