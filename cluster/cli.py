"""The command `dledger`; `commands/registry.py` has the names and help lines of its subcommands."""

from __future__ import annotations

import io
import sys

import click

from cluster.commands.registry import COMMANDS, COMMANDS_GROUP, LazyGroup

EPILOG = (
    "Start here: dledger up, dledger status, echo hi | dledger produce t, dledger consume t -n 1, "
    "dledger down."
)


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    plug_ins=COMMANDS_GROUP,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="dledger", prog_name="dledger")
def dledger() -> None:
    """Three brokers keep one ordered log; a message is acknowledged by a majority, on disk."""


def main() -> None:
    """Entry point; exit codes are described in `commands/errors.py`."""
    if not __debug__:
        # Assertions keep a mistake in this code from damaging the log, so they must be on.
        sys.stderr.write(
            "dledger[assertions-off]: assertions are switched off (-O or PYTHONOPTIMIZE) and they "
            "protect your messages; start Python without -O\n"
        )
        sys.exit(2)
    # The name of a file may be no UTF-8, or nothing that the terminal has: it is printed escaped.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        dledger(standalone_mode=False)
    except click.ClickException as error:
        _show(error)
        sys.exit(error.exit_code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # As in `dledger consume t | head`: the reader needs no more output.
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        _report(error)


def _show(error: click.ClickException) -> None:
    from cluster.commands.errors import USAGE, usage_text

    if isinstance(error, click.UsageError) and error.exit_code == USAGE:
        click.echo(usage_text(error), err=True)
    else:
        error.show()


def _report(error: Exception) -> None:
    from cluster.commands.errors import (
        crash_report,
        error_id,
        exit_code_of,
        is_expected,
        sentence_of,
    )
    from cluster.extras import missing_extra

    if isinstance(error, ImportError):
        error = missing_extra(error)
    if is_expected(error):
        sys.stderr.write(f"dledger[{error_id(error)}]: {sentence_of(error)}\n")
        sys.exit(getattr(error, "exit_code", exit_code_of(error)))
    sys.stderr.write(crash_report(error) + "\n")
    sys.exit(70)


if __name__ == "__main__":
    main()
