"""`dledger pipeline …`: the jobs as commands.

Exit codes: 0: no fault was found; 1: a fault was found; 2: the job could not decide. A job runs in
this process, in `--jobs` processes, or in tasks of a Spark cluster (`--master`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cluster.commands.output import report_option, to_json
from cluster.commands.registry import WholeHelpGroup

if TYPE_CHECKING:
    from pipeline.jobs.workers import Workers

Function = TypeVar("Function", bound=Callable[..., Any])
FOLDER = click.Path(path_type=Path, file_okay=False)
SESSION = {"spark.ui.showConsoleProgress": "false"}
ROOT = click.Path(path_type=Path, exists=True, file_okay=False)


class StoreType(click.Path):
    """A folder that exists, or a URL (`pipeline/places.py`), as text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Raises BadParameter for a missing folder; a URL is opened only when the job runs."""
        if "://" in str(value):
            return str(value)
        return str(super().convert(value, param, ctx))


STORE = StoreType(exists=True, file_okay=False)


def _workers_options(function: Function) -> Function:
    jobs = click.option(
        "--jobs",
        type=click.IntRange(1, 1024),
        default=1,
        show_default=True,
        help="Processes to use.",
    )
    master = click.option("--master", default="", help="Run on Spark: local[2], spark://host:7077.")
    return jobs(master(function))


@contextmanager
def _workers(jobs: int, master: str) -> Iterator[Workers]:
    from pipeline.jobs.workers import OnSpark, Processes

    if not master:
        yield Processes(jobs)
        return
    from pipeline.requirements import SparkMissing, local_session

    try:
        session = local_session("dledger pipeline", master, SESSION)
        spark = session.__enter__()
    except SparkMissing as error:
        raise click.ClickException(f"--master: {error}") from None
    try:
        yield OnSpark(spark)
    finally:
        session.__exit__(None, None, None)


def _tell(output: str, found: dict[str, Any], text: str) -> None:
    click.echo(to_json(found) if output == "json" else text)


@click.group(cls=WholeHelpGroup)
def pipeline() -> None:
    """Jobs over topics and raw logs of stopped nodes, snapshot copies, backups, RocketMQ stores.

    A STORE is a folder, or the URL of one: s3://BUCKET/n0, hdfs://HOST:8020/n0.
    """
    from pipeline.requirements import check_arrow

    check_arrow()


@pipeline.command()
@click.argument("store", type=STORE)
@click.argument("root", type=FOLDER)
@_workers_options
@report_option
def archive(store: str, root: Path, jobs: int, master: str, output: str) -> None:
    """Add the records of STORE to the Parquet archive at ROOT; a killed job adds none."""
    from pipeline.jobs.archive import archive as run

    with _workers(jobs, master) as workers:
        done = run(store, root, workers=workers)
    text = f"{done.rows} rows in {done.files} files added to {root}"
    _tell(output, asdict(done), text)


@pipeline.command()
@click.argument("root", type=ROOT)
@report_option
def verify(root: Path, output: str) -> None:
    """Read every file of the archive at ROOT and compare it with the manifest."""
    from pipeline.jobs.archive import verify as run

    rows = run(root)
    _tell(output, {"rows": rows}, f"{rows} rows, every queue whole")


@pipeline.command()
@click.argument("root", type=ROOT)
@click.argument("target", type=FOLDER)
@_workers_options
@report_option
def compact(root: Path, target: Path, jobs: int, master: str, output: str) -> None:
    """Write the archive at ROOT to TARGET with one file for each topic, day and queue."""
    from pipeline.jobs.compact import compact as run

    with _workers(jobs, master) as workers:
        done = run(root, target, workers=workers)
    text = f"{done.rows} rows of {done.files_read} files in {done.files} files of {target}"
    _tell(output, asdict(done), text)


def _named(stores: tuple[str, ...]) -> dict[str, str]:
    """Name → store; the name is its path or its URL without secrets, numbered if two are equal."""
    from pipeline.options import log_at

    different = list(dict.fromkeys(stores))
    names = [log_at(store).where for store in different]
    numbered = (
        f"{name} ({number})" if names.count(name) > 1 else name
        for number, name in enumerate(names, 1)
    )
    return dict(zip(numbered, different, strict=True))


@pipeline.command()
@click.argument("stores", nargs=-1, required=True, type=STORE)
@_workers_options
@report_option
def audit(stores: tuple[str, ...], jobs: int, master: str, output: str) -> None:
    """Compare the logs of replicas, byte by byte; name the first entry that differs."""
    from pipeline.jobs.audit import audit as run

    with _workers(jobs, master) as workers:
        found = run(_named(stores), workers=workers)
    lines = [str(difference) for difference in found.differences]
    lines += [f"{name}: {damage}" for name, damage in found.damaged.items()]
    text = "\n".join(
        [
            *lines,
            f"entries {found.first} to {found.last}, {found.chunks} chunks: "
            + ("all equal" if found.is_clean else "not equal"),
        ]
    )
    _tell(output, asdict(found), text)
    sys.exit(0 if found.is_clean else 1)


@pipeline.command()
@click.argument("store", type=STORE)
@click.argument("target", type=FOLDER)
@click.option(
    "--queue-file-size",
    type=int,
    default=6_000_000,
    show_default=True,
    help="Bytes of a queue file.",
)
@click.option(
    "--index-slots",
    type=int,
    default=5_000_000,
    show_default=True,
    help="Hash slots of an index file.",
)
@click.option(
    "--index-entries",
    type=int,
    default=20_000_000,
    show_default=True,
    help="Keys of an index file.",
)
@click.option("--compare", "compares", is_flag=True, help="Compare with the store's own files.")
@_workers_options
@report_option
def rebuild(
    store: str,
    target: Path,
    queue_file_size: int,
    index_slots: int,
    index_entries: int,
    compares: bool,
    jobs: int,
    master: str,
    output: str,
) -> None:
    """Make consumequeue/ and index/ of STORE again, in the new folder TARGET."""
    from commitlog.config import StoreConfig
    from pipeline.jobs.rebuild import compare
    from pipeline.jobs.rebuild import rebuild as run

    if compares and "://" in store:
        raise click.UsageError("--compare reads files of this machine; give STORE as a folder")
    config = StoreConfig(
        consume_queue_file_size=queue_file_size,
        index_slots=index_slots,
        index_entries=index_entries,
    )
    with _workers(jobs, master) as workers:
        made = run(store, target, config=config, workers=workers)
    wrong = compare(Path(store), target) if compares else []
    text = (
        f"{made.queue_entries} entries of {made.queues} queues, {made.index_entries} index keys"
        + (
            "".join(f"\n{line}" for line in wrong)
            or ("; byte for byte equal to the store's" if compares else "")
        )
    )
    _tell(output, {**asdict(made), "differences": wrong}, text)
    sys.exit(1 if wrong else 0)


@pipeline.command()
@click.argument("store", type=STORE)
@click.option("--servers", default="", help="Read group offsets from this cluster, not STORE.")
@click.option("--page", "page_path", type=click.Path(path_type=Path), help="Write an HTML page.")
@click.option("--topic", default="", help="Write the rows to this topic of --servers, too.")
@_workers_options
@report_option
def backlog(
    store: str,
    servers: str,
    page_path: Path | None,
    topic: str,
    jobs: int,
    master: str,
    output: str,
) -> None:
    """Messages received per minute, unread messages of each group, and the age of the oldest."""
    from pipeline.jobs.backlog import count_log, positions_of_store, report
    from pipeline.jobs.live import positions_of_cluster, publish
    from pipeline.jobs.page import page
    from pipeline.options import log_at
    from pipeline.sink.options import sink_options

    if topic and not servers:
        raise click.UsageError("--topic is given and --servers is not; give both")
    positions = positions_of_cluster(servers) if servers else positions_of_store(store)
    with _workers(jobs, master) as workers:
        found = report(count_log(store, workers=workers), positions)
    if page_path is not None:
        page_path.write_text(page(found), encoding="utf-8")
    if topic:
        options = sink_options({"servers": servers, "topic": topic, "createTopic": "true"})
        publish(found.rows(), options, f"{log_at(store).where}/{found.made.isoformat()}")
    lines = [
        f"{row.topic}  {row.group}  unread {row.messages}"
        + (f"  oldest {row.oldest_age_s:.0f} s" if row.messages else "")
        for row in found.groups
    ]
    _tell(output, {"rows": found.rows()}, "\n".join(lines) or "no group has an offset")


@pipeline.command()
@click.argument("history", type=click.Path(path_type=Path, exists=True, allow_dash=True))
@click.argument("root", type=FOLDER)
@report_option
def convert(history: Path, root: Path, output: str) -> None:
    """Write a chaos run's folder HISTORY as Parquet, by queue, under ROOT, for `history`.

    HISTORY may also be a history file, or - for standard input. The job then knows no replica's
    log, no power failure and no deleted message.
    """
    from pipeline.jobs.history.recorded import convert as convert_lines
    from pipeline.jobs.history.recorded import convert_run

    if not history.is_dir():
        with click.open_file(str(history), encoding="utf-8") as lines:
            _tell_count(output, convert_lines(lines, root))
        return
    try:
        count = convert_run(history, root)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(
            f"{history} is not the folder of a finished run: {error!r}"
        ) from error
    _tell_count(output, count)


def _tell_count(output: str, count: int) -> None:
    _tell(output, {"operations": count}, f"{count} operations")


@pipeline.command()
@click.argument("root", type=ROOT)
@click.option("--everything-read", is_flag=True, help="Consumers should have read all of it.")
@_workers_options
@report_option
def history(root: Path, everything_read: bool, jobs: int, master: str, output: str) -> None:
    """Judge the history and the replicas' logs under ROOT."""
    from pipeline.jobs.history.check import check

    with _workers(jobs, master) as workers:
        found = check(root, everything_read=everything_read, workers=workers)
    kinds = ("lost", "doubled", "reordered", "others")
    counts: dict[str, int] = {kind: getattr(found, kind) for kind in kinds}
    names = dict(found.names)
    text = f"{found.operations} operations, {found.acked} acknowledged: {found.word.name.lower()}"
    text += f"\ntaken back {found.taken_back}" if found.taken_back else ""
    text += "".join(f"\n{name} {count}" for name, count in sorted(names.items()))
    more = {"word": found.word.name, "operations": found.operations, "acked": found.acked}
    counts["taken_back"] = found.taken_back
    _tell(output, {**more, **counts, "names": names}, text)
    sys.exit(found.word.value)


@pipeline.command()
@click.argument("root", type=ROOT)
@click.argument("source")
@click.option("--servers", required=True, help="Name servers: host:port.")
@click.option("--topic", required=True, help="Topic to send to; it must exist.")
@click.option("--by-key", is_flag=True, help="Choose queues by key; else as in the archive.")
@_workers_options
@report_option
def replay(
    root: Path,
    source: str,
    servers: str,
    topic: str,
    by_key: bool,
    jobs: int,
    master: str,
    output: str,
) -> None:
    """Send topic SOURCE of the archive at ROOT to a topic; a second run sends no message twice."""
    from pipeline.jobs.replay import replay as run
    from pipeline.sink.options import sink_options

    options = sink_options({"servers": servers, "topic": topic})
    with _workers(jobs, master) as workers:
        rows = run(root, source, options, keep_queues=not by_key, workers=workers)
    _tell(output, {"rows": rows}, f"{rows} rows of {source} are in {topic}")
