"""The table of routes: the one place that lists paths, roles, values and shapes.

    Route ─┬─► http.py        listens, checks the role, reads the parameters, calls the handler
           ├─► openapi.py     writes the document
           └─► the tests      ask every route with every role, and with values of no sense

A route cannot be made without a role. Values come as texts (path, query) or as JSON (body); a
handler gets them checked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.console.api.failures import ApiError
from cluster.console.api.roles import Role

Schema = Mapping[str, Any]
Values = Mapping[str, Any]
#: (the cluster, checked values) → a JSON value.
Handler = Callable[[Any, Values], Awaitable[Any]]
#: (the cluster, checked values) → the events of a stream, None for a moment without one.
Stream = Callable[[Any, Values], AsyncIterator[Mapping[str, Any] | None]]

INTEGER_MAX = (1 << 53) - 1
"""JavaScript counts no further."""
TEXT_LENGTH_MAX = 255
_PLACES = ("path", "query", "body")
_METHODS = ("GET", "POST", "PATCH", "DELETE")
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value of a request.

    Attributes:
        place: path, query, or body: a field of the JSON object that is sent.
        kind: string, integer or boolean.
        default: None: it is left out.
        least, most: bounds of an integer, both included.
        length_max: characters of a string.
        pattern: of a string, for the document; handlers check names themselves.
    """

    name: str
    help: str
    place: str = "query"
    kind: str = "string"
    required: bool = False
    default: Any = None
    choices: Sequence[str] = ()
    least: int = 0
    most: int = INTEGER_MAX
    length_max: int = TEXT_LENGTH_MAX

    def __post_init__(self) -> None:
        assert self.place in _PLACES, self.place
        assert self.kind in ("string", "integer", "boolean"), self.kind

    def schema(self) -> dict[str, Any]:
        """The value's JSON schema."""
        found: dict[str, Any] = {"type": self.kind}
        if self.choices:
            found["enum"] = list(self.choices)
        elif self.kind == "string":
            found |= {"minLength": 1 if self.required else 0, "maxLength": self.length_max}
        if self.kind == "integer":
            found |= {"minimum": self.least, "maximum": self.most}
        if self.default is not None:
            found["default"] = self.default
        return found

    def read(self, value: Any) -> Any:
        """The checked value of a text or of a JSON value. Raises ApiError (400)."""
        if self.kind == "integer":
            return self._integer(value)
        if self.kind == "boolean":
            found = _TRUTH.get(value) if isinstance(value, str) else value
            if not isinstance(found, bool):
                raise self._wrong(value, "neither true nor false")
            return found
        if not isinstance(value, str):
            raise self._wrong(value, "no text")
        if len(value) > self.length_max:
            raise self._wrong(value, f"longer than {self.length_max} characters")
        if self.required and not value:
            raise self._wrong(value, "empty")
        if self.choices and value not in self.choices:
            raise self._wrong(value, f"none of {', '.join(self.choices)}")
        if not value.isprintable() and self.place != "body":
            raise self._wrong(value, "not printable")
        return value

    def _integer(self, value: Any) -> int:
        if isinstance(value, str):
            digits = value.removeprefix("-")
            if not (digits.isascii() and digits.isdigit() and len(digits) <= 16):
                raise self._wrong(value, "no whole number")
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(value, "no whole number")
        if not self.least <= value <= self.most:
            raise self._wrong(value, f"not within {self.least}..{self.most}")
        return value

    def _wrong(self, value: Any, why: str) -> ApiError:
        return ApiError(400, "bad-value", f"{self.name} is {value!r:.60}, {why}; {self.help}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path.

    Attributes:
        role: the least role that may ask.
        answer: the name of the answer's schema (schemas.py).
        stream: in place of `handler`: the answer is a stream of server-sent events, each with an
            object of the schema.
        command: a write's equivalent `dledger` command, with values in braces.
        statuses: of refusals beside those that every route has.
    """

    method: str
    path: str
    role: Role
    summary: str
    answer: str
    handler: Handler | None = None
    stream: Stream | None = None
    parameters: Sequence[Parameter] = ()
    command: str = ""
    statuses: Sequence[int] = (404,)

    def __post_init__(self) -> None:
        if not isinstance(self.role, Role):
            raise TypeError(f"{self.method} {self.path} has no role; give one of cluster.console")
        assert self.method in _METHODS, self.method
        assert (self.handler is None) != (self.stream is None), "one of the two"
        named = {part[1:-1] for part in self.path.split("/") if part.startswith("{")}
        assert named == {p.name for p in self.parameters if p.place == "path"}, self.path

    @property
    def changes(self) -> bool:
        """True if a request may change the cluster."""
        return self.method != "GET"

    def read(self, path: Values, query: Values, body: Values) -> dict[str, Any]:
        """Checked values of all parameters. Raises ApiError (400) for one that is wrong."""
        given = {"path": path, "query": query, "body": body}
        found: dict[str, Any] = {}
        for parameter in self.parameters:
            value = given[parameter.place].get(parameter.name)
            if value is not None:
                found[parameter.name] = parameter.read(value)
            elif parameter.required:
                raise ApiError(
                    400, "missing-value", f"{parameter.name} is missing; {parameter.help}"
                )
            else:
                found[parameter.name] = parameter.default
        for place in ("query", "body"):
            known = {p.name for p in self.parameters if p.place == place}
            if strangers := sorted(set(given[place]) - known):
                raise ApiError(
                    400,
                    "unknown-value",
                    f"{strangers[0]!r:.60} is no value of this request; leave it out"
                    + (f", or give one of {', '.join(sorted(known))}" if known else ""),
                )
        return found
