"""The manual of a settings dataclass, taken from its source, and `conf/*.toml` made from it.

A field is documented by `#:` comments above it, by a comment behind it, or by a string below it; a
field that follows the one before it without a blank line shares that one's text:

    #: More: less idle traffic, slower detection. Less: the opposite.
    heartbeat_interval: float = 0.1
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from dataclasses import dataclass

from cluster.settings.settings import default_of, is_required
from cluster.settings.values import to_toml

WIDTH = 98


@dataclass(frozen=True, slots=True)
class SettingDoc:
    """One setting as the manual shows it; `default` is None when there is none, or it is None."""

    name: str
    type: str
    default: object
    required: bool
    text: str


def describe(kind: type) -> list[SettingDoc]:
    """All settings of a dataclass in order; `text` is "" for one without a description."""
    source = textwrap.dedent(inspect.getsource(kind))
    texts = _texts(source)
    return [
        SettingDoc(
            name=item.name,
            type=str(item.type),
            default=default_of(item),
            required=is_required(item),
            text=texts.get(item.name, ""),
        )
        for item in dataclasses.fields(kind)
        if item.init
    ]


def _texts(source: str) -> dict[str, str]:
    lines = source.splitlines()
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    text, end = "", -1
    for node, following in zip(definition.body, [*definition.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        assert node.end_lineno is not None
        behind = lines[node.end_lineno - 1][node.end_col_offset or 0 :].strip()
        string = (
            following.value.value
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            else ""
        )
        found = [_comment_above(lines, node.lineno - 1), behind.lstrip("#: "), str(string)]
        own = " ".join(" ".join(part.split()) for part in found if part)
        text = own or (text if node.lineno == end + 1 else "")
        texts[node.target.id], end = text, node.end_lineno
    return texts


def _comment_above(lines: list[str], index: int) -> str:
    found: list[str] = []
    while index > 0 and lines[index - 1].strip().startswith("#"):
        index -= 1
        found.insert(0, lines[index].strip().lstrip("#: "))
    return " ".join(found)


def section_toml(name: str, kind: type, values: dict[str, object] | None = None) -> str:
    """One TOML section: every setting with its text, commented out at its default.

    What is in `values` is set instead; a required setting without a value is marked as such.
    """
    values = values or {}
    summary = (inspect.getdoc(kind) or "").split("\n\n")[0]
    parts = [*_wrap(summary), f"[{name}]", ""]
    for doc in describe(kind):
        parts += _wrap(doc.text)
        if doc.name in values:
            parts.append(f"{doc.name} = {to_toml(values[doc.name])}")
        elif doc.required:
            parts.append(f"# {doc.name} =            # required: {doc.type}")
        elif doc.default is None:
            parts.append(f"# {doc.name} =            # not set: {doc.type}")
        else:
            parts.append(f"# {doc.name} = {to_toml(doc.default)}")
        parts.append("")
    return "\n".join(parts)


def _wrap(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), WIDTH)]
