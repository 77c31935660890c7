"""The known incarnation of each peer: a wiped node does not pass for its former self (S7, R6).

    <data_dir>/peers.json     {"n1": 8071523990012, "n2": 5550012345}

A node's incarnation is a random number, drawn when its folder is formatted; the node sends it in
the first frame of each connection, its hello. This node writes a peer's first incarnation to disk
before it accepts a message from the peer. A peer that later shows another incarnation has lost its
votes and the entries that it acknowledged, so this node refuses it: it may neither vote nor be
counted. If this file is lost, each peer's next incarnation is taken for the first one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from commitlog.files.system import FileSystem
from dledger.core.types import NodeId
from dledger.errors import LaterVersion, NodeFailed

FILE_NAME = "peers.json"


def read_known(files: FileSystem, folder: Path) -> dict[str, int]:
    """The file, {} without one. Raises NodeFailed when it is not a list of peers, LaterVersion."""
    path = folder / FILE_NAME
    if not files.exists(path):
        return {}
    try:
        known = json.loads(files.read(path))
        rows = {str(name): value for name, value in known.items()}
    except (ValueError, AttributeError) as error:
        raise NodeFailed(
            f"{path} is not the list of peers that this node wrote; "
            "restore it, or remove it if no peer was replaced since"
        ) from error
    if strange := [name for name, value in rows.items() if type(value) is not int]:
        raise LaterVersion(
            f"{path} has more than a number of {', '.join(strange)}, which this release does not "
            "know"
        )
    return rows


class KnownPeers:
    """The first incarnation seen of each peer, on disk; the transport calls `vouch` for a hello."""

    def __init__(self, files: FileSystem, folder: Path) -> None:
        """Load the file, if it is there. Raises as `read_known`."""
        self._files, self._folder = files, folder
        self._known = read_known(files, folder)

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
            text = json.dumps(met, sort_keys=True, indent=1)
            self._files.write_atomic(self._path, text.encode())
            self._known = met
            return None
        return (
            f"{peer} comes back as incarnation {incarnation} and was {known}: its folder was "
            "formatted again, or lost the file of its votes or its flush mark, so it forgot what "
            f"it had promised; bring its old folder back, or readmit it: member replace {peer}"
        )
