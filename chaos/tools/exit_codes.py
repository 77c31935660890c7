"""How judging commands end: 0 valid, 1 invalid, 2 unknown, 254 usage, 255 harness.

Source: docs/spec/chaos.md 7.

1 and 2 are verdicts about a cluster and nothing else, so a mistyped option must not end with 2, as
it does elsewhere, nor a failure of ours with 1.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import click

from cluster.commands.registry import LazyGroup

USAGE = 254
HARNESS = 255


class _Judging(click.Command):
    """Maps usage errors and failures; for groups and for commands that stand alone."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except click.UsageError as error:
            error.show()
            sys.exit(USAGE)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.show()
            sys.exit(USAGE)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted, which says nothing about the cluster", err=True)
            sys.exit(HARNESS)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except BrokenPipeError:  # who read what is printed has gone; click would end with 1
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(HARNESS)
        except Exception as error:
            traceback.print_exc()
            click.echo(f"failed, which says nothing about the cluster: {error}", err=True)
            sys.exit(HARNESS)


class JudgingCommand(_Judging):
    """One command."""


class JudgingGroup(_Judging, LazyGroup):
    """A group of them, which are imported when they are called."""
