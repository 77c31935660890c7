"""Why a store is not moved, and why no node is made."""

from __future__ import annotations

from collections.abc import Sequence

from commitlog.advice import Advised

LINES_MAX = 20  # of a damaged store's findings in one error; `dledger inspect` tells all


class MoveRefused(Advised):
    """The move was refused before any byte was written; the text says how to proceed."""

    advice = "move another replica, or a backup"
    retriable = False
    exit_code = 1


class FolderBusy(Advised):
    """Another command is making a node in the same folder."""

    advice = "let it end, or name another folder"
    retriable = True
    exit_code = 4


class FolderLeft(Advised):
    """A command failed and could not remove all that it had made; the text names the rest."""

    advice = "remove what it names, then run this again"
    retriable = False
    exit_code = 1


def damaged(path: object, findings: Sequence[object]) -> MoveRefused:
    """The refusal of a damaged source, with the places."""
    places = "\n".join(f"  {finding}" for finding in findings[:LINES_MAX])
    more = len(findings) - LINES_MAX
    rest = f"\n  … and {more} more: dledger inspect {path}" if more > 0 else ""
    return MoveRefused(
        f"{path} is damaged in {len(findings)} places; move another replica, or a backup:\n"
        f"{places}{rest}"
    )
