"""Checks a schema that a user gave to a read, before anything runs."""

from __future__ import annotations

from pyspark.sql.types import StructType

from pipeline.options import OptionError


def types_of(schema: StructType) -> dict[str, str]:
    """Column → its type as Spark spells it."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def check_schema(given: StructType, made: StructType) -> None:
    """A schema that the user gave must be the one that rows come with. Raises OptionError."""
    wanted, found = types_of(made), types_of(given)
    if list(found.items()) == list(wanted.items()):
        return
    for name, kind in found.items():
        if wanted.get(name) not in (kind, None):
            reason = f"its column {name} is {kind} and messages have {wanted[name]}"
            break
    else:
        unknown = [name for name in found if name not in wanted]
        reason = f"there is no column {unknown[0]}" if unknown else "its columns are others"
    raise OptionError(
        f"the schema that was given does not fit: {reason}; leave .schema(…) out, and choose with "
        f'option("columns", "…") among {", ".join(wanted)}'
    )
