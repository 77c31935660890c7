"""Facts that a history does not contain and its judge needs, in a small file beside it.

    <root>/circumstances.json   {"begins": 4096, "blackouts": [[3.2, 4.0], …]}

`begins`: address below which messages were deleted (chaos.checkers.beginnings). `blackouts`: when
acknowledgements in memory may have been taken back, in seconds of the run (chaos.checkers.levels).
Without the file nothing was deleted and the power stayed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from chaos.checkers.levels import Blackout

FILE = "circumstances.json"


class CircumstancesError(Exception):
    """The file cannot be understood, so no queue was judged."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Of one history, all queues."""

    begins: int = 0
    blackouts: tuple[Blackout, ...] = ()


#: Nothing was deleted, the power stayed.
NONE = Circumstances()


def read_circumstances(root: Path) -> Circumstances:
    """Raises CircumstancesError when there is a file that is not as above, OSError."""
    path = root / FILE
    if not path.exists():
        return NONE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        begins = int(found.get("begins", 0))
        pairs = [(float(began), float(ended)) for began, ended in found.get("blackouts", [])]
    except (ValueError, TypeError, AttributeError) as error:
        raise CircumstancesError(
            f'{path} is not like {{"begins": 0, "blackouts": [[3.2, 4.0]]}} ({error}): '
            "convert the run again, or correct it"
        ) from error
    return Circumstances(begins, tuple(Blackout(*pair) for pair in pairs))


def write_circumstances(root: Path, circumstances: Circumstances) -> None:
    """In place of those that were there."""
    root.mkdir(parents=True, exist_ok=True)
    fields = {"begins": circumstances.begins, "blackouts": circumstances.blackouts}
    (root / FILE).write_text(json.dumps(fields) + "\n", encoding="utf-8")
