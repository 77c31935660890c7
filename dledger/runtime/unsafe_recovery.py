"""A majority is lost for good: one survivor's log becomes the group's (R6, `--unsafe`).

    before   n0 (last entry 90)  n1 lost  n2 lost       nobody can lead
    after    n0 alone, in a new term, by a configuration appended to its own log

What may be lost: entries that n1 and n2 had acknowledged to each other and n0 never got; nobody can
say how many. What n0 had and was not committed becomes committed. The lost nodes must never start
again on their folders: by their own logs they are a majority.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from commitlog.files.system import OS_FILES, FileSystem
from dledger.core.configuration import Configuration, ConfigurationEntry, Member
from dledger.core.types import Index, Term
from dledger.durable import identity as identities
from dledger.durable.configurations import ConfigurationFile
from dledger.durable.identity import Identity
from dledger.log.node_storage import NodeStorage, open_node
from dledger.replica.envelope import STAMP_AT, members_body
from dledger.runtime.later_files import refuse_later_files
from dledger.runtime.opening import CODEC, draw_incarnation, forgotten, noted_group


@dataclass(frozen=True, slots=True)
class Survivor:
    """State of a surviving folder. `committed`: known to be so; more entries may be, too.

    `lost`: files of the folder both copies of which are lost; the numbers are -1 then.
    """

    node: str
    term: int
    last: int
    last_term: int
    committed: int
    members: tuple[str, ...]
    lost: tuple[str, ...] = ()

    def as_row(self) -> dict[str, object]:
        """The survivor as a row of a table."""
        return asdict(self)

    def sentence(self) -> str:
        """A sentence for the operator, on which to decide."""
        lost = [name for name in self.members if name != self.node]
        if self.lost:
            return (
                f"{self.node} lost both copies of {' and '.join(self.lost)}: it does not know any "
                "more how it voted and where its log ended. Its log counts from now on as far as "
                "it is whole; acknowledged messages behind that are lost. "
                f"Never start {', '.join(lost) or 'another copy'} again on their folders: they "
                "would be a second group of the same name."
            )
        return (
            f"{self.node} ends with entry {self.last} of term {self.last_term} "
            f"({self.committed} is known to be committed, by all means at least). "
            f"Whatever {', '.join(lost) or 'nobody'} had acknowledged above {self.last} is lost, "
            f"and what {self.node} has above {self.committed} counts from now on. "
            f"Never start {', '.join(lost) or 'another copy'} again on their folders: they would "
            "be a second group of the same name."
        )


def look(folder: Path, *, files: FileSystem = OS_FILES) -> Survivor:
    """The state that `recover` would start from. Opens the folder as a start does: the node must
    be down.

    Raises NotFormatted, StoreLocked, HardStateLost, LogDamaged, LaterVersion, OSError.
    """
    refuse_later_files(files, folder)
    if lost := forgotten(files, folder):
        found = identities.read(files, folder)
        names = noted_group(found, folder, files).voters or (found.node_id,)
        return Survivor(found.node_id, -1, -1, -1, -1, tuple(map(str, names)), lost)
    storage, found = _open(folder, files)
    try:
        return _survivor(storage, found, _group_file(storage, folder, files))
    finally:
        storage.close()


def recover(folder: Path, *, files: FileSystem = OS_FILES) -> Survivor:
    """Append a configuration that names this node alone, durably. Raises as `look`.

    A folder that forgot its votes or its log's end goes on as another incarnation.
    """
    refuse_later_files(files, folder)
    storage, found = _open(folder, files, draw_incarnation=draw_incarnation)
    try:
        group = _group_file(storage, folder, files)
        before = _survivor(storage, found, group)
        state = storage.hard_state.state
        term = Term(max(state.term, storage.log.last.term) + 1)
        save = storage.hard_state.begin_save(replace(state, term=term, voted_for=None))
        save.run()
        storage.hard_state.finish_save(save)
        address = next(
            (
                member.address
                for entry in group.entries[-1:]
                if entry.configuration is not None
                for member in entry.configuration.members
                if member.node_id == found.node_id
            ),
            "",
        )
        alone = Configuration(
            (Member(found.node_id, incarnation=state.incarnation, address=address),)
        )
        group.note(ConfigurationEntry(Index(storage.log.last.index + 1), alone), term)
        body = members_body(alone, int(time.time() * 1000))
        storage.log.append([body], term, stamp_at=STAMP_AT)
    except BaseException:
        storage.close(failed=True)
        raise
    storage.close()
    return before


def _open(
    folder: Path, files: FileSystem, draw_incarnation: Callable[[], int] | None = None
) -> tuple[NodeStorage, Identity]:
    found = identities.read(files, folder)
    storage = open_node(
        folder,
        cluster_id=found.cluster_id,
        group=found.group,
        node_id=found.node_id,
        clock=time.monotonic,
        files=files,
        draw_incarnation=draw_incarnation,
    )
    return storage, found


def _group_file(storage: NodeStorage, folder: Path, files: FileSystem) -> ConfigurationFile:
    return ConfigurationFile(files, folder, storage.log, CODEC, staging=folder / "staging")


def _survivor(storage: NodeStorage, found: Identity, group: ConfigurationFile) -> Survivor:
    newest = group.entries[-1].configuration if group.entries else None
    names = found.voters or (found.node_id,) if newest is None else newest.voters
    last = storage.log.last
    return Survivor(
        found.node_id,
        storage.hard_state.state.term,
        last.index,
        last.term,
        storage.log.commit_hint,
        tuple(map(str, names)),
    )
