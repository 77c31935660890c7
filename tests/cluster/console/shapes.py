"""Does a JSON value have the shape of a schema of the document? As much as schemas.py uses."""

from __future__ import annotations

from typing import Any

from cluster.console.api.schemas import SCHEMAS

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


def check(value: Any, schema: str | dict[str, Any] | None, where: str = "answer") -> None:
    """Fails with the place of the first difference; None checks nothing."""
    if schema is None:
        return
    if isinstance(schema, str):
        schema = SCHEMAS[schema]
    if "$ref" in schema:
        return check(value, schema["$ref"].rpartition("/")[2], where)
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    is_bool = isinstance(value, bool)
    fits = any(isinstance(value, _TYPES[k]) and (k == "boolean" or not is_bool) for k in kinds)
    assert fits, f"{where} is {value!r:.80}, not {kinds}"
    if isinstance(value, list):
        for number, item in enumerate(value):
            check(item, schema["items"], f"{where}[{number}]")
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        missing = set(schema.get("required", ())) - set(value)
        assert not missing, f"{where} lacks {sorted(missing)}"
        rest = schema.get("additionalProperties", True)
        for name, item in value.items():
            assert name in fields or rest is not False, f"{where} has {name}, which is unknown"
            if name in fields or isinstance(rest, dict):
                check(item, fields.get(name, rest), f"{where}.{name}")
