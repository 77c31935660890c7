"""`dledger chaos serve DIR` shows the run folders in DIR in a browser, the newest first.

    /                 one row per run: verdict, counts, faults, seed, link to the report
    /<run>/…          the files of that run's folder

It lists only finished runs, and sends only files that really are below DIR, not ones that a link
there points to. A run whose evidence is missing or of another size is listed as unknown; to find
out more, run `dledger chaos check`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from functools import partial
from html import escape
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit

import click

from chaos.live.evidence_files import wrong_with
from chaos.report.page import HERE

RUNS_SHOWN_MAX = 1000
HEAD = ("run", "verdict", "acknowledged", "lost", "doubled", "anomalies", "faults", "seed")


class _Handler(SimpleHTTPRequestHandler):
    """The list at `/`, files of `directory` below it."""

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Send the headers of the answer to GET and HEAD; return the body to send, or None."""
        root = Path(self.directory).resolve()
        if urlsplit(self.path).path == "/":
            page = render_index(root).encode("utf-8", "replace")
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            return io.BytesIO(page)
        # The check follows links; a folder is not a file, so none is listed.
        if not _is_file_below(root, self.translate_path(self.path)):
            self.send_error(HTTPStatus.NOT_FOUND, "no such file in these runs")
            return None
        return super().send_head()

    def log_message(self, *_: object) -> None:
        """Prints no line per request."""


def _is_file_below(root: Path, path: str) -> bool:
    try:
        wanted = Path(path).resolve()
        return wanted.is_relative_to(root) and wanted.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def make_server(runs: Path, host: str, port: int) -> ThreadingHTTPServer:
    """The server, bound to its port and not yet serving. Raises OSError when the port is taken."""
    return ThreadingHTTPServer((host, port), partial(_Handler, directory=str(runs)))


def render_index(runs: Path) -> str:
    """The list as a page."""
    rows = "".join(_row(root, said) for root, said in finished(runs))
    head = "".join(f"<th>{name}</th>" for name in HEAD)
    style = (HERE / "report.css").read_text("utf-8")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Chaos runs</title><style>{style}</style></head><body><main><h1>Chaos runs</h1>"
        f'<section><div class="wide"><table><tr>{head}</tr>{rows}</table></div></section>'
        "</main></body></html>\n"
    )


def finished(runs: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Folders with a verdict that can be read, by time of the verdict, newest first."""
    found = []
    for path in runs.glob("*/verdict.json"):
        if path.parent.is_symlink():
            continue  # `latest` is a link to one of the other folders
        try:
            said = json.loads(path.read_text("utf-8"))
            found.append((path.stat().st_mtime, path.parent, said))
        except (OSError, ValueError, RecursionError):
            continue  # it is just being written, or is no verdict of this program
    found.sort(key=lambda one: one[0], reverse=True)
    return [(root, said) for _, root, said in found[:RUNS_SHOWN_MAX] if isinstance(said, dict)]


def _row(root: Path, said: dict[str, Any]) -> str:
    name, address = escape(root.name), quote(os.fsencode(root.name))
    linked = f'<a href="/{address}/report.html">{name}</a>'
    if not (root / "report.html").exists():
        linked = f'{name} (<a href="/{address}/verdict.json">no report</a>)'
    word = str(said.get("verdict", ""))
    if wrong_with(root, quick=True)[0]:
        word = "unknown: the evidence is not as the run left it"
    kind = {"valid": "pass", "invalid": "fail"}.get(word, "unknown")
    faults = said.get("faults")
    faults = faults if isinstance(faults, dict) else {}
    shown = f"{faults.get('took_effect', '')} of {faults.get('carried_out', '')}"
    values = [word, *(said.get(key, "") for key in ("acked", "lost", "doubled", "violations"))]
    cells = "".join(f"<td>{escape(str(v))}</td>" for v in (*values, shown, said.get("seed", "")))
    return f'<tr class="{kind}"><td>{linked}</td>{cells}</tr>'


@click.command()
@click.argument("runs", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8086,
    show_default=True,
    help="Port to listen on; 0: a free one.",
)
def serve(runs: Path, host: str, port: int) -> None:
    """Show the run folders in RUNS in a browser, until Ctrl-C."""
    try:
        server = make_server(runs, host, port)
    except OSError as error:
        raise click.UsageError(
            f"cannot listen on {host}:{port}: {error}; choose another port"
        ) from error
    with server, contextlib.suppress(KeyboardInterrupt):
        click.echo(f"http://{host}:{server.server_address[1]}/  (Ctrl-C ends it)")
        server.serve_forever()
