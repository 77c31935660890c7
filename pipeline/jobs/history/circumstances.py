"""Reads and writes facts that the judge of a history needs and the history itself does not hold.

    <root>/circumstances.json   {"begins": 4096, "blackouts": [[3.2, 4.0], …]}

`begins`: address below which messages were deleted (chaos.checkers.beginnings). `blackouts`: power
failures, in seconds of the run, which may have taken back messages that were acknowledged in memory
(chaos.checkers.levels). Without the file there was no deletion and no power failure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from chaos.checkers.levels import Blackout

FILE = "circumstances.json"


class CircumstancesError(Exception):
    """The file of circumstances cannot be read, so no queue was judged."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The circumstances of one history, for all its queues."""

    begins: int = 0
    blackouts: tuple[Blackout, ...] = ()


#: No deletion and no power failure.
NONE = Circumstances()


def read_circumstances(root: Path) -> Circumstances:
    """The circumstances in the file under `root`; NONE without one.

    Raises CircumstancesError for a file of another form, OSError.
    """
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
    """Write the file of circumstances, in place of a former one."""
    root.mkdir(parents=True, exist_ok=True)
    fields = {"begins": circumstances.begins, "blackouts": circumstances.blackouts}
    (root / FILE).write_text(json.dumps(fields) + "\n", encoding="utf-8")
