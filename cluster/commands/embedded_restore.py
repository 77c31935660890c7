"""`dledger restore --into`: a backup becomes the folders of an embedding program's new group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cluster.backup.manifest import Manifest
from cluster.backup.places import Place
from cluster.backup.restoring import Until, restore
from cluster.commands.backup import moment_text, now_ms
from cluster.commands.errors import USAGE, CommandError
from cluster.move.new_folders import all_or_nothing, clear, is_new
from commitlog.files.system import OS_FILES
from dledger.config import RaftConfig, node_name_error
from dledger.runtime import folder_names
from dledger.runtime.opening import new_cluster_id


def check_new(
    found: Sequence[Manifest], node: Path | None, into: Path, members: Sequence[str]
) -> None:
    """Raises CommandError unless one group is wanted, `into` is new or empty, and each of several
    members can have a folder of its name in it.
    """
    if node is not None:
        raise CommandError("--node and --into make two kinds of folders; give one of them", USAGE)
    if len(found) > 1:
        raise CommandError("the backup has several groups; name one with --group", USAGE)
    for name in members:
        if wrong := node_name_error(name):
            raise CommandError(f"{wrong}; give --member another one", USAGE)
    several = set(members) if len(set(members)) > 1 else ()
    for name in sorted(several):
        if not folder_names.is_possible(name) or not folder_names.is_free(name):
            raise CommandError(
                f"the member name {name!r:.80} can be no folder's; {folder_names.RULE} (members of "
                "a new group need not have the names of former ones)",
                USAGE,
            )
    if not is_new(into):
        raise CommandError(
            f"{into} is in use, and a restored log must not meet another one; name a new folder",
            USAGE,
        )


def restored_into(
    place: Place,
    manifest: Manifest,
    until: Until,
    into: Path,
    members: Sequence[str],
    progress: Callable[[int], None],
) -> list[dict[str, Any]]:
    """A row for each folder. Their cluster is a new one, so that a former member is refused.

    Raises as `restore`, ValueError.
    """
    names = sorted(set(members))
    folders = {name: into / name if len(names) > 1 else into for name in names}
    log, cluster_id = manifest.log, new_cluster_id()
    configs = [
        RaftConfig(
            name,
            dict.fromkeys(names, ("127.0.0.1", 1)),  # no address is written; programs give them
            folder,
            cluster_id=cluster_id,
            group=log.group,
            data_file_size=log.data_file_size,
            index_file_size=log.index_file_size,
        )
        for name, folder in folders.items()
    ]
    clear(into, OS_FILES)
    with all_or_nothing([into]):
        done = restore(place, manifest, configs, until, now_ms(), progress=progress)
    return [
        {
            "group": log.group,
            "node": name,
            "cluster_id": cluster_id,
            "entries": done.entries,
            "to_index": done.last,
            "to_time": moment_text(done.last_ms),
            "checksum": f"{done.checksum:08x}",
            "into": str(folder),
        }
        for name, folder in folders.items()
    ]
