"""`docs/reference/errors.md`: every error that callers meet, exit codes, response codes."""

from __future__ import annotations

import errno
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
_IDS = """## Ids

The last line on standard error of a command, a node or a name server begins with the error's id:

```text
dledger[topic-not-found]: the topic x does not exist; dledger topic list shows those that do
```

It stays when a sentence is worded anew, so scripts may look for it. It is the error's class as in
the tables below (`TopicNotFound`: `topic-not-found`), as in the API, or stands for one of these:

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
    parts = [f"{_HEAD}```text\n{inspect.cleandoc(block)}\n```\n", _ids()]
    for module, title in _MODULES:
        heads = ("error", "repeat it?", "done?", "code", "meaning", "try")
        parts.append(f"## {title}\n\n`{module.__name__}`\n\n{table(heads, _rows(module))}")
    return "\n".join(parts)


def _ids() -> str:
    """The ids of errors that are in none of the tables."""
    system: dict[str, list[str]] = {}
    for number, name in command_errors.SYSTEM_IDS.items():
        system.setdefault(name, []).append(errno.errorcode.get(number, "no such host"))
    rows = [(code(name), ", ".join(numbers)) for name, numbers in system.items()]
    rows += [(code(name), f"exit code {at}") for at, name in command_errors.CODE_IDS.items()]
    return _IDS + table(("id", "stands for"), rows)


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
