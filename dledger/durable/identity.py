"""The identity of a folder's owner. Written once, as the last step of formatting (R6).

    <folder>/identity    one JSON object, then a line "crc32 <8 hex digits>" over the line before

Without this file a folder is not formatted, whatever else it holds: a crash while formatting leaves
nothing that a node would start from. It is never changed; sizes in it are those of the files.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from commitlog.files.system import FileSystem
from dledger.core.types import Index, NodeId
from dledger.durable import two_copies
from dledger.errors import LaterVersion, LogDamaged, NotFormatted, WrongIdentity
from dledger.log.options import DATA_FILE_SIZE, FIRST_INDEX, INDEX_FILE_SIZE
from dledger.versions import refuse_later, refuse_other_fields

FILE_NAME = "identity"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """Names of the folder's owner, and the log's sizes and first position, which never change.

    Attributes:
        cluster_id: drawn once for the whole cluster, so that two clusters never mix.
        group: the Raft group, in RocketMQ the broker name.
        node_id: the replica in the group, for example "n0".
        voters: who voted when the folder was formatted, before any entry of the log says otherwise;
            empty for one that was formatted to join, None in folders of earlier versions.
        data_file_size, index_file_size, first_position, first_index, upgrade_index: as in
            `LogOptions`.
    """

    cluster_id: str
    group: str
    node_id: NodeId
    data_file_size: int = DATA_FILE_SIZE
    index_file_size: int = INDEX_FILE_SIZE
    first_position: int = 0
    first_index: Index = FIRST_INDEX
    upgrade_index: Index = FIRST_INDEX
    voters: tuple[NodeId, ...] | None = None


def encode(identity: Identity) -> bytes:
    """One line of JSON and its CRC, as the file holds them."""
    line = json.dumps({"version": VERSION, **asdict(identity)}, sort_keys=True).encode()
    return two_copies.sign(line)


def decode(data: bytes) -> Identity:
    """Raises ValueError when the bytes are not a whole identity, LaterVersion."""
    line = two_copies.signed(data)
    if line is None:
        raise ValueError("its checksum is wrong")
    values: dict[str, Any] = json.loads(line)
    version = values.pop("version", None)
    refuse_later("the folder's identity", version, VERSION)
    if version != VERSION:
        raise ValueError(f"it has version {version} and this program knows {VERSION}")
    voters = values.setdefault("voters", None)
    refuse_other_fields("the folder's identity", values, [field.name for field in fields(Identity)])
    if voters is not None:
        values["voters"] = tuple(voters)
    return Identity(**values)


def write(files: FileSystem, folder: Path, identity: Identity, *, staging: Path) -> None:
    """Writes the file, whole or not at all; durable when this returns. Raises OSError."""
    files.write_atomic(folder / FILE_NAME, encode(identity), staging=staging)


def read(files: FileSystem, folder: Path) -> Identity:
    """Raises NotFormatted, LogDamaged, LaterVersion."""
    path = folder / FILE_NAME
    if not files.exists(path):
        raise NotFormatted(
            f"{folder} was never formatted for a node; format it once when the cluster is made "
            "(dledger node format), or check the path if it was: a node whose disk is lost is "
            "replaced (dledger node replace)"
        )
    try:
        return decode(files.read(path))
    except LaterVersion as error:
        raise LaterVersion(f"{path}: {error.happened}") from error
    except ValueError as error:
        raise LogDamaged(
            f"{path} is not to be read: {error}; restore it from a backup or replace the node"
        ) from error


def check(found: Identity, *, cluster_id: str, group: str, node_id: str, folder: Path) -> None:
    """Raises WrongIdentity when the folder belongs to another node, group or cluster."""
    for what, here, wanted in (
        ("cluster", found.cluster_id, cluster_id),
        ("group", found.group, group),
        ("node", found.node_id, node_id),
    ):
        if here != wanted:
            raise WrongIdentity(
                f"{folder} belongs to {what} {here!r} and this node is of {what} {wanted!r}; "
                "point it to its own folder"
            )
