"""Groups that one round of a backup could not copy: told when the others are copied.

one group, or all of one kind of error     that error, with its exit code
some of several                            `SomeFailed`, which `--every` tries again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.backup.errors import BackupError
from cluster.commands.errors import sentence_of


@dataclass(frozen=True, slots=True)
class Failed:
    """The folders of one group, or one folder that does not say its group; none was copied."""

    folders: tuple[str, ...]
    error: Exception


class SomeFailed(BackupError):
    """Groups were not copied; the text names their folders, and the reason of each."""

    advice = "look at what it names, then run it again"

    def __init__(self, failed: Sequence[Failed], copied: int) -> None:
        self.retriable = bool(copied) or all(is_retriable(one.error) for one in failed)
        of_each = "; ".join(f"{', '.join(one.folders)}: {sentence_of(one.error)}" for one in failed)
        total = len(failed) + copied
        super().__init__(f"{len(failed)} of {total} groups were not copied: {of_each}")


def is_retriable(error: Exception) -> bool:
    """May the next round succeed? An error of the operating system may be over by then."""
    return bool(getattr(error, "retriable", isinstance(error, OSError)))


def raise_failed(failed: Sequence[Failed], copied: int) -> None:
    """Raises the error of a single group, SomeFailed for several groups; none for none."""
    if len(failed) == 1 and not copied:
        raise failed[0].error
    if failed:
        raise SomeFailed(failed, copied)
