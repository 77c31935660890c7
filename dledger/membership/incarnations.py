"""The known incarnation of each peer: a wiped node does not pass for its former self (S7, R6).

    <data_dir>/peers.json    {"crc32 of the others": 913550012, "n1": 8071523990012, "n2": 5550012}

A node's incarnation is a random number, drawn when its folder is formatted; the node sends it in
the first frame of each connection, its hello. This node writes a peer's first incarnation to disk
before it accepts a message from the peer. A peer that later shows another incarnation has lost its
votes and the entries that it acknowledged, so this node refuses it: it may neither vote nor be
counted. If this file is lost, each peer's next incarnation is taken for the first one.

A damaged file does harm, so it is refused by its checksum. By a digit that flipped this node would
refuse a peer that has lost nothing, and pin the wrong number for the whole group with the next
change of members; by a name that flipped it would take a wiped peer for its former self. The
checksum is a row, as former releases read each row as a peer and keep it: they go on with this
file. They write a row on each line, without a new checksum; a file of that form is not checked, and
a start writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from commitlog.files.system import FileSystem, is_out_of_space
from commitlog.records.checksum import crc32
from dledger.core.types import NodeId
from dledger.errors import LaterVersion, NodeFailed

FILE_NAME = "peers.json"
_CHECK = "crc32 of the others"


def read_known(files: FileSystem, folder: Path) -> dict[str, int]:
    """The file, {} without one. Raises NodeFailed when it is not a list of peers, LaterVersion."""
    path = folder / FILE_NAME
    return _known(path, files.read(path)) if files.exists(path) else {}


def _known(path: Path, data: bytes) -> dict[str, int]:
    try:
        rows = {str(name): value for name, value in json.loads(data).items()}
    except (ValueError, AttributeError) as error:
        raise _damaged(path) from error
    is_formers = data == json.dumps(rows, sort_keys=True, indent=1).encode()
    check = rows.pop(_CHECK, None)
    if check is not None and not is_formers and check != _sum(rows):
        raise _damaged(path)
    if strange := [name for name, value in rows.items() if type(value) is not int]:
        raise LaterVersion(
            f"{path} has more than a number of {', '.join(strange)}, which this release does not "
            "know"
        )
    return rows


def _damaged(path: Path) -> NodeFailed:
    return NodeFailed(
        f"{path} is not the list of peers that this node wrote; "
        "restore it, or remove it if no peer was replaced since"
    )


def _sum(rows: Mapping[str, object]) -> int:
    return crc32(json.dumps(rows, sort_keys=True).encode())


def _text(known: Mapping[str, int]) -> bytes:
    return json.dumps({_CHECK: _sum(known), **known}, sort_keys=True).encode() + b"\n"


class KnownPeers:
    """The first incarnation seen of each peer, on disk; the transport calls `vouch` for a hello."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        """Load the file, if it is there, and give it its checksum. Raises as `read_known`."""
        self._files, self._folder = files, folder
        data = files.read(self._path) if files.exists(self._path) else None
        self._known = {} if data is None else _known(self._path, data)
        if self._known and data != _text(self._known):
            try:
                self._write(self._known)
            except OSError as error:
                if not is_out_of_space(error):
                    raise

    @property
    def _path(self) -> Path:
        return self._folder / FILE_NAME

    @property
    def met(self) -> Mapping[NodeId, int]:
        """The incarnation of each peer that was met."""
        return {NodeId(name): incarnation for name, incarnation in self._known.items()}

    def vouch(self, peer: NodeId, incarnation: int) -> str | None:
        """None if the incarnation of `peer` is known, or noted now; else why it is refused."""
        known = self._known.get(peer)
        if known == incarnation:
            return None
        if known is None:
            met = {**self._known, peer: incarnation}
            self._write(met)
            self._known = met
            return None
        return (
            f"{peer} comes back as incarnation {incarnation} and was {known}: its folder was "
            "formatted again, or lost the file of its votes or its flush mark, so it forgot what "
            f"it had promised; bring its old folder back, or readmit it: member replace {peer}"
        )

    def _write(self, known: Mapping[str, int]) -> None:
        self._files.write_atomic(self._path, _text(known))
