"""`docs/reference/commands.md` and `measuring.md`: the help of every command, as it prints it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from copy import copy

import click

from cluster.cli import dledger
from cluster.commands.connecting import Reach, address_option
from cluster.local import nameserver_main
from commitlog.inspect.command import arguments_of

WIDTH = 98
#: Commands that break, measure or judge: a page of their own.
MEASURING = frozenset({"bench", "chaos", "demo", "mutants", "mutants-drawn", "pipeline", "sim"})
#: Commands that read their options with argparse.
_OWN_OPTIONS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "inspect": arguments_of,
    "nameserver": lambda: nameserver_main.arguments_of("dledger nameserver"),
}
#: Stands in the help of a command for the options of a page's first section.
REACH_LINE = "-a, --account, --tls, --tls-any-host, --profile"
_HEAD = """\
# {title}

{text} Each has `--help`, and its exit code is one of [these](errors.md#exit-codes).
Made by `scripts/gen-conf` from the commands themselves.

"""
_REACH = f"""\
## How a command reaches a cluster

Commands whose help has the line `{REACH_LINE}` have all of these options:

```text
{{options}}
```

"""


def commands_md() -> str:
    """The page of commands that run, ask and repair a cluster."""
    head = _HEAD.format(
        title="Commands",
        text="Every command that runs, asks or repairs a cluster; those that measure, break and "
        "judge are on\n[a page of their own](measuring.md).",
    )
    reach = _REACH.format(options=_reach_options())
    return head + reach + "\n".join(_sections(lambda name: name not in MEASURING))


def measuring_md() -> str:
    """The page of commands that measure, break and judge."""
    head = _HEAD.format(
        title="Commands that measure, break and judge",
        text="Benchmarks, the simulator, faults on purpose, the Spark pipeline; all others are on\n"
        "[the page of commands](commands.md).",
    )
    return head + "\n".join(_sections(lambda name: name in MEASURING))


def _sections(wanted: Callable[[str], bool]) -> Iterator[str]:
    root = click.Context(dledger, info_name="dledger", terminal_width=WIDTH)
    for name in dledger.list_commands(root):
        found = dledger.get_command(root, name)
        if found is not None and not found.hidden and wanted(name):
            yield from _of(found, click.Context(found, parent=root, info_name=name))


def _of(command: click.Command, context: click.Context) -> Iterator[str]:
    """Sections of a command and of those below it; a group's own lists them."""
    level = "##" if context.parent is None or context.parent.parent is None else "###"
    yield f"{level} {context.command_path}\n\n```text\n{_help(command, context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from _of(found, click.Context(found, parent=context, info_name=name))


def _help(command: click.Command, context: click.Context) -> str:
    parser_of = _OWN_OPTIONS.get(context.info_name or "")
    if parser_of is None or (context.parent and context.parent.parent):
        return _without_reach(command, context)
    parser = parser_of()
    parser.formatter_class = _Fixed
    return parser.format_help().rstrip()


def _without_reach(command: click.Command, context: click.Context) -> str:
    """The help, with one line for the options that reach a cluster, if it has all of them."""
    names = {option.name for option in _reach.params}
    if not names <= {option.name for option in command.params}:
        return command.get_help(context).rstrip()
    shown = copy(command)
    shown.params = [option for option in command.params if option.name not in names]
    before, last, after = shown.get_help(context).rstrip().rpartition("\n  --help ")
    return f"{before}\n  {REACH_LINE}{last}{after}"


@click.command(add_help_option=False)
@address_option
def _reach(address: Reach) -> None:
    """The options that reach a cluster, on a command that is never run."""


def _reach_options() -> str:
    context = click.Context(_reach, terminal_width=WIDTH)
    formatter = context.make_formatter()
    _reach.format_options(context, formatter)
    return formatter.getvalue().strip("\n")


class _Fixed(argparse.HelpFormatter):
    """As wide wherever it is made."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH)
