"""`docs/reference/api.md`: every route of the API of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cluster.console.api.routes import ROUTES
from cluster.console.api.table import Parameter, Route
from cluster.reference.markdown import code, table

_IN_BRACES = re.compile(r"{(\w+)}")
_HEAD = """\
# The API

Every node's admin HTTP has it (`admin.listen`), and answers for the whole cluster, whichever node
is asked. `/api/v1/openapi.json` is its OpenAPI 3.1 document, with the shapes of all answers;
`/docs` shows that in a browser. A role may do what the roles before it may: viewer, operator,
admin. Beside it: `/healthz` (200 while the process lives), `/readyz` (200 while it serves clients,
else 503 with the reason) and `/metrics`. A value with "?" may be left out.
Made by `scripts/gen-conf` from the table of routes.

```sh
curl -H "Authorization: Bearer $TOKEN" http://10.0.0.10:8080/api/v1/overview
```

"""


def api_md() -> str:
    """The page."""
    heads = ("route", "role", "what", "values", "as a command")
    return _HEAD + table(heads, map(_row, ROUTES))


def _row(route: Route) -> tuple[str, ...]:
    return (
        code(f"{route.method} {route.path}"),
        route.role.label,
        route.summary,
        ", ".join(_values(route.parameters)),
        code(_IN_BRACES.sub(lambda found: found[1].upper(), route.command)),
    )


def _values(parameters: Sequence[Parameter]) -> Iterator[str]:
    for one in parameters:
        if one.place != "path":
            yield f"`{one.name}`{'' if one.required else '?'}"
