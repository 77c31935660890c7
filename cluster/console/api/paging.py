"""Pages of a list, by cursor: a text that says where the next page begins.

A cursor is the JSON value of that place in URL-safe base64. It names a place in the order of the
list, not a number of rows, so rows that come and go between two pages are neither doubled nor lost.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import orjson

from cluster.console.api.failures import ApiError
from cluster.console.api.table import Parameter

LIMIT_MAX = 200
CURSOR_LENGTH_MAX = 32_768

CURSOR = Parameter(
    "cursor", "give the cursor of the page before, or leave it out", length_max=CURSOR_LENGTH_MAX
)
FILTER = Parameter("filter", "only names that contain this text, in any case")


def limit(default: int = 50) -> Parameter:
    """Rows of a page."""
    return Parameter(
        "limit", "how many rows at most", kind="integer", default=default, least=1, most=LIMIT_MAX
    )


def encode_cursor(place: Any) -> str:
    """The text of a place."""
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")


def decode_cursor(cursor: str, kind: type) -> Any:
    """The place, which must be a `kind`. Raises ApiError (400) for a text that is no cursor."""
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place = orjson.loads(data)
    except (ValueError, binascii.Error):
        place = None
    if not isinstance(place, kind):
        raise bad_cursor()
    return place


def bad_cursor() -> ApiError:
    """The error for a cursor that no page has given."""
    return ApiError(400, "bad-cursor", "this is no cursor of this list; begin without one")


def page_of_names(names: Sequence[str], values: Any) -> tuple[list[str], str | None]:
    """A page of sorted names behind the cursor's, and the cursor of the next page."""
    wanted = (values["filter"] or "").lower()
    found = [name for name in names if wanted in name.lower()] if wanted else list(names)
    if values["cursor"] is not None:
        behind = decode_cursor(values["cursor"], str)
        found = [name for name in found if name > behind]
    page = found[: values["limit"]]
    return page, encode_cursor(page[-1]) if len(found) > len(page) else None
