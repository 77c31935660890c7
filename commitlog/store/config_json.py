"""`config/*.json` as RocketMQ's fastjson writes them, and the .bak rules (docs/spec/store.md 5.3).

    tab indent, no space after ':', fields of objects in alphabetical order, null fields left out;
    maps with integer keys have bare keys and no line breaks between entries:  {0:10,1:12
                                                                              }
The last is no JSON, so the reader quotes bare integer keys first.

Saving renames the file to .bak, then writes the new one; a crash leaves the old content under one
of the two names. Loading takes the .bak when the file is missing, empty or unreadable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from commitlog.errors import StoreDamaged
from commitlog.files.system import FileSystem

BACKUP_SUFFIX: Final = ".bak"
DEPTH_MAX: Final = 64  # RocketMQ's files are at most 6 deep; bounds recursion on foreign ones

_STRING_OR_KEY = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(?<=[{,])(\s*)(-?\d+)(?=\s*:)', re.DOTALL)
_ESCAPED = re.compile('[\x00-\x1f"\\\\\x7f-\x9f\u2028\u2029]')
_SHORT: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def parse_config(data: bytes, path: str = "") -> dict[str, Any]:
    """The object in a config file; integer keys come as strings of digits.

    Raises StoreDamaged (with `path`) for anything that is no object.
    """
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(_STRING_OR_KEY.sub(_quote_key, text), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise StoreDamaged(f"the file is not what fastjson writes ({reason})", path=path) from error
    if not isinstance(value, dict):
        raise StoreDamaged("the file holds no object", path=path)
    return value


def _quote_key(match: re.Match[str]) -> str:
    key = match[2]
    return match[0] if key is None else f'{match[1]}"{key}"'


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def render_config(value: Mapping[str, Any]) -> bytes:
    """`value` as fastjson's pretty format writes it; no newline at the end.

    Values: str, bool, int, float, None (left out), lists, and dicts whose keys are all strings
    (one entry a line, in their order) or all integers (bare keys, in their order).
    """
    return _render(value, 0).encode("utf-8", "replace")


def _render(value: Any, depth: int) -> str:
    assert depth <= DEPTH_MAX, "no config file is that deep"
    if isinstance(value, str):
        return _render_string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return _render_map(value, depth)
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_render(item, depth + 1) for item in value)}]"
    assert isinstance(value, (int, float)), f"{type(value).__name__} has no form in a config file"
    return repr(value)


def _render_map(value: Mapping[Any, Any], depth: int) -> str:
    entries = [(key, item) for key, item in value.items() if item is not None]
    if not entries:
        return "{}"
    end = "\n" + "\t" * depth + "}"
    if isinstance(entries[0][0], int):
        return "{" + ",".join(f"{key}:{_render(item, depth + 1)}" for key, item in entries) + end
    line = "\n" + "\t" * (depth + 1)
    fields = [f"{line}{_render_string(key)}:{_render(item, depth + 1)}" for key, item in entries]
    return "{" + ",".join(fields) + end


def _render_string(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT.get(character) or f"\\u{ord(character):04X}"


def backup_path(path: Path) -> Path:
    """The path of the file before, beside `path`."""
    return path.with_name(path.name + BACKUP_SUFFIX)


def save_config(
    files: FileSystem, path: Path, value: Mapping[str, Any], *, staging: Path | None = None
) -> None:
    """Write `path`, keeping its earlier content as `path.bak`. Raises OSError."""
    data = render_config(value)
    if files.exists(path):
        files.rename(path, backup_path(path))
        files.sync_dir(path.parent)
    files.write_atomic(path, data, staging=staging)


def load_config(files: FileSystem, path: Path) -> dict[str, Any] | None:
    """The content of `path` or else of its .bak; None when there is neither.

    An unreadable file is removed once its .bak has proved good, so that the next save does not
    put it in the place of the good one. Raises StoreDamaged when the only content is unreadable
    (nothing is removed then), OSError from the disk.
    """
    backup = backup_path(path)
    main_data = files.read(path) if files.exists(path) else b""
    damage: StoreDamaged | None = None
    if main_data:
        try:
            return parse_config(main_data, str(path))
        except StoreDamaged as error:
            damage = error
    backup_data = files.read(backup) if files.exists(backup) else b""
    if not backup_data:
        if damage is not None:
            raise damage
        return None
    value = parse_config(backup_data, str(backup))
    if files.exists(path):
        files.remove(path)
        files.sync_dir(path.parent)
    return value
