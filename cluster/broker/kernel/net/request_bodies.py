"""Reads and checks names and bodies of administrators' requests; code 29 tells the mistake."""

from __future__ import annotations

from typing import Any

from cluster.broker.kernel.read.topic_checks import find_topic
from cluster.core.topics import TopicConfig, TopicTable, group_name_error, topic_name_error
from cluster.errors import InvalidRequest, RemoteProtocolError
from cluster.protocol.frames import Frame
from cluster.protocol.json_body import ROWS_COUNT_MAX, load
from cluster.protocol.text_body import lines_of


def existing_topic(topics: TopicTable, name: str) -> TopicConfig:
    """Raises InvalidRequest or TopicNotFound."""
    wrong = topic_name_error(name)
    if wrong is not None:
        raise InvalidRequest(wrong)
    return find_topic(topics, name)


def legal_group(name: str) -> str:
    """Raises InvalidRequest."""
    wrong = group_name_error(name)
    if wrong is not None:
        raise InvalidRequest(wrong)
    return name


def json_object(frame: Frame, what: str) -> dict[str, Any]:
    """The request's body as one JSON object. Raises InvalidRequest."""
    try:
        value = load(frame.body, what)
    except RemoteProtocolError as error:
        raise InvalidRequest(f"{error}; send a JSON object") from None
    if not isinstance(value, dict):
        raise InvalidRequest(f"the body of {what} is no JSON object; send one")
    return value


def json_rows(value: dict[str, Any], name: str, what: str) -> list[dict[str, Any]]:
    """The list of objects under `name`. Raises InvalidRequest."""
    rows = value.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidRequest(f"the body of {what} lacks its list {name}; send it")
    if len(rows) > ROWS_COUNT_MAX:
        raise InvalidRequest(f"{len(rows)} rows in one {what}; send at most {ROWS_COUNT_MAX}")
    return rows


def properties_of(frame: Frame) -> dict[str, str]:
    """The request's body as lines `key=value` (java.util.Properties). Raises InvalidRequest."""
    values: dict[str, str] = {}
    for line in lines_of(frame.body):
        key, separator, value = line.partition("=")
        if line.startswith(("#", "!")) or not key:
            continue
        if not separator:
            raise InvalidRequest(f"the line {key[:40]!r} is not of the form key=value; write it so")
        values[key.strip()] = value.strip()
    return values
