"""Bodies of lines `key=value` (java.util.Properties): settings of brokers and name servers."""

from __future__ import annotations

from cluster.errors import InvalidRequest, RemoteProtocolError
from cluster.protocol.json_body import ITEMS_MAX, check_size


def lines_of(body: bytes) -> list[str]:
    """The lines without blanks around them, and without the empty ones.

    Raises:
        InvalidRequest: it is no UTF-8 text, or longer than anybody's settings.
    """
    try:
        check_size(body, "settings")
        text = body.decode()
    except RemoteProtocolError as error:
        raise InvalidRequest(str(error)) from None
    except UnicodeDecodeError:
        raise InvalidRequest(
            "the body is no UTF-8 text; send lines of the form key=value"
        ) from None
    count = body.count(b"\n")
    if count > ITEMS_MAX:
        raise InvalidRequest(f"settings have {count} lines, the limit is {ITEMS_MAX}; split them")
    return [line for line in map(str.strip, text.splitlines()) if line]
