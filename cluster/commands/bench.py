"""`dledger bench NAME [KEY=VALUE ...]`: run a module of `cluster.bench`, print its result."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TypeVar, get_type_hints

import click

from cluster.bench.interpreter import description
from cluster.commands.errors import FAILED, NOT_THERE, USAGE, CommandError
from cluster.commands.output import report_option, to_json
from cluster.commands.registry import BENCHES_GROUP, LazyGroup

Options = TypeVar("Options")
BENCHES = {
    "consume": "A local cluster and one client that reads a topic from its start.",
    "disk": "This machine's disk: what every other figure is compared with.",
    "embed": "ReplicatedLog in three processes, no client protocol.",
    "states": "A state machine with a large state: commands while it is written.",
    "groups": "Many idle groups on three hosts: what they cost, and how soon they are led again.",
    "send": "A local cluster and one client: rate, latency, CPU per message.",
}


@click.group(cls=LazyGroup, lazy={}, plug_ins=BENCHES_GROUP)
def bench() -> None:
    """Measure speed, failover, recovery, memory.

    Options are KEY=VALUE; `dledger bench NAME --help` describes them. Exit code 1: below a bar.
    """


def parse(pairs: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE with numbers, true/false and 1,2,3 as such, the rest as text.

    Raises CommandError for another form, and for a `folder` that is not there.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise CommandError(f"{pair!r} is not of the form KEY=VALUE; write it so", USAGE)
        if key == "folder":
            options[key] = existing_folder(value)
            continue
        parts = [_value(part) for part in value.split(",")]
        options[key] = tuple(parts) if "," in value else parts[0]
    return options


def existing_folder(name: str) -> str:
    """The folder to work in, "" for the system's. Raises CommandError where there is none."""
    if name and not Path(name).is_dir():
        raise CommandError(f"{name} is no folder to work in; make it, or name another", NOT_THERE)
    return name


def options_of(kind: type[Options], name: str, pairs: Sequence[str]) -> Options:
    """Options of a program `scripts/bench NAME`. Raises CommandError for one that it has not."""
    given = parse(tuple(pairs))
    if unknown := set(given) - set(get_type_hints(kind)):
        raise CommandError(f"no option {min(unknown)}; {name} --help lists them", USAGE)
    return kind(**given)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def run(name: str, pairs: tuple[str, ...], package: str = "cluster.bench") -> dict[str, Any]:
    """Run a benchmark of a package. Raises CommandError for an option that it does not have."""
    module = importlib.import_module(f"{package}.{name}")
    options = parse(pairs)
    _check_kinds(name, module, options)
    try:
        return dict(module.run(options)) | {"python": description()}
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise CommandError(
            f"{error}; dledger bench {name} --help lists the options", USAGE
        ) from None


def _check_kinds(name: str, module: ModuleType, options: Mapping[str, Any]) -> None:
    """Raises CommandError for a text where the benchmark takes a number, or the other way round."""
    for kind in vars(module).values():
        if isinstance(kind, type) and kind.__name__.endswith("Options"):
            for key, wanted in get_type_hints(kind).items():
                value = options.get(key)
                fits = _KINDS.get(wanted)
                if value is not None and fits is not None and type(value) not in fits:
                    raise CommandError(
                        f"{key} is {value!r} and must be of the kind {wanted.__name__}; "
                        f"dledger bench {name} --help lists the options",
                        USAGE,
                    )


#: Kind of an option → kinds of values that it takes.
_KINDS: Mapping[type, tuple[type, ...]] = {int: (int,), float: (int, float), bool: (bool,)}


def passed(result: dict[str, Any]) -> bool:
    """Whether every bar that the result names was met."""
    bars = result.get("bars", {})
    return bool(result.get("passed", True)) and all(
        met for name, met in bars.items() if name.endswith("_met")
    )


def lines(result: dict[str, Any], indent: str = "") -> list[str]:
    """Text for people: one value a line, tables of the same shape below each other."""
    found = []
    for name, value in result.items():
        if isinstance(value, dict):
            found += [f"{indent}{name}", *lines(value, indent + "  ")]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for row in value:
                found += [f"{indent}{name}", *lines(row, indent + "  ")]
        else:
            text = f"{value:,.2f}" if isinstance(value, float) else str(value)
            found.append(f"{indent}{name:30} {text}")
    return found


def tell(result: dict[str, Any], output: str) -> NoReturn:
    """Print the measured figures, and exit by their bars."""
    click.echo(to_json(result) if output == "json" else "\n".join(lines(result)))
    sys.exit(0 if passed(result) else FAILED)


def bench_command(name: str, summary: str, package: str = "cluster.bench") -> click.Command:
    """The command of a module of a package: its text is the help, its `run` measures."""

    class Command(click.Command):
        def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            text = importlib.import_module(f"{package}.{name}").__doc__ or ""
            formatter.write(text)

    @click.command(name, cls=Command, short_help=summary)
    @click.argument("options", nargs=-1, metavar="[KEY=VALUE]...")
    @report_option
    def command(options: tuple[str, ...], output: str) -> None:
        tell(run(name, options, package), output)

    return command


for _name, _summary in BENCHES.items():
    bench.add_command(bench_command(_name, _summary))
