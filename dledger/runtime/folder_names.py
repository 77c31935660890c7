"""The rule for names of folders that stand side by side and hold a node each.

    data/orders      a group of a `Host`, by its name
    restored/n1      a member of a group that `dledger restore --into` makes

Tools tell such a folder from a node's own, and from a store's root, by what is in it: a name
must not look like either.
"""

from __future__ import annotations

import re

from dledger.durable import identity

#: A node's folder in the root of a store, which tools look for by this.
ROOT_PREFIX = "dledger-"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
RULE = (
    "use up to 200 letters, digits, '_', '-' and '.', and no '.' or '-' in front; not "
    f"{identity.FILE_NAME!r}, and not {ROOT_PREFIX!r} in front"
)


def is_possible(name: str) -> bool:
    """Can this be the folder's name on every file system?"""
    return _NAME.fullmatch(name) is not None


def is_free(name: str) -> bool:
    """Does no tool take the folder, or the one that it stands in, for another kind?

    Small letters count as large ones: some file systems do not tell them apart.
    """
    small = name.lower()
    return small != identity.FILE_NAME and not small.startswith(ROOT_PREFIX)
