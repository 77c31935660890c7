"""`dledger bench spark-log`: files of a stopped node → Arrow, and → Spark.

    one core, no Spark   found by the log's index · found by search · a struct loop, the yardstick
    Spark local[2]       all columns · four columns, without the body · two, offset and body ·
                         Parquet of the same rows

Records are of 250 bytes, in the replicated log's layout; all is in the page cache. Bars: 1.0 GB/s
with the index and 0.6 GB/s without; 1.2 M rows/s of all columns and 2 M rows/s of four; all columns
at 0.9 times the speed of Spark's own Parquet reader in the same run, and two at 1.8 times that of
all. Both ratios are told by time and by processor time, which other programs disturb less.
"""

from __future__ import annotations

import struct
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import psutil
import pyarrow as pa

from cluster.commands.bench import tell
from cluster.commands.output import report_option
from commitlog.records.record import HEADER_SIZE
from pipeline.bench.made import make_log
from pipeline.bench.options import AS_CUT, folder_option, repeats_option
from pipeline.bench.turns import Job, Turns, compared, take_turns, turns_with_cpu
from pipeline.options import LogOptions
from pipeline.rawlog.plan import plan
from pipeline.rawlog.read import batches
from pipeline.requirements import local_session

COLUMNS = ("topic", "queue", "offset", "timestamp", "value")
PRUNED = "topic,queue,offset,timestamp"
INDEXED_BAR, SEARCHED_BAR = 1.0e9, 0.6e9
TWO = "offset,value"
ROWS_BAR, PRUNED_BAR, PARQUET_BAR, TWO_BAR = 1.2e6, 2e6, 0.9, 1.8
BODY_SIZE = 60  # with headers, key, tag and properties a record of some 250 bytes
LOOP_SHARE = 20  # the loop reads one entry of so many: it is slow
_SIZE = struct.Struct(">i")
_QUEUE, _OFFSETS, _BORN, _BODY = (struct.Struct(form) for form in (">i", ">qq", ">q", ">i"))


@dataclass(frozen=True, slots=True)
class Options:
    """`entries` of the log, in blocks of 4,096."""

    entries: int = 2_000_000
    repeats: int = 5
    folder: str = ""
    spark: bool = True


def run(options: Options) -> dict[str, Any]:
    """Bytes and rows per second, medians and bests, and which bars were met."""
    with tempfile.TemporaryDirectory(prefix="dledger-log-", dir=options.folder or None) as name:
        root = Path(name)
        log_bytes = make_log(root / "n0", options.entries, BODY_SIZE)
        rows = sum(piece.last_slot - piece.first_slot for piece in plan(LogOptions(root / "n0")))
        _without_index(root / "n0", root / "bare")
        plain = take_turns(_plain(root, log_bytes, rows), options.repeats)
        found = Turns({}, {}, {})
        if options.spark:
            with local_session("dledger bench spark-log", settings=AS_CUT) as spark:
                jobs = _in_spark(spark, root, rows)
                found = turns_with_cpu(jobs, options.repeats, part_of=_part)
    return _result(log_bytes / rows, plain, found)


def _part(process: psutil.Process) -> str:
    return "jvm" if process.name() == "java" else "python"


def _without_index(node: Path, bare: Path) -> None:
    """Links the same log files into a folder without the index, so that entries must be found by
    reading."""
    (bare / "dledger-n0").mkdir(parents=True)
    (bare / "dledger-n0" / "data").symlink_to(node / "dledger-n0" / "data")
    checkpoint = (node / "dledger-n0" / "checkpoint").read_text()
    (bare / "dledger-n0" / "checkpoint").write_text(checkpoint)


def _plain(root: Path, log_bytes: int, rows: int) -> dict[str, Job]:
    first = min((root / "n0" / "dledger-n0" / "data").iterdir())
    share = rows // LOOP_SHARE
    return {
        "indexed": Job(log_bytes, partial(_read, LogOptions(root / "n0", columns=COLUMNS), rows)),
        "searched": Job(
            log_bytes, partial(_read, LogOptions(root / "bare", columns=COLUMNS), rows)
        ),
        "loop": Job(log_bytes * share // rows, partial(_loop, first, share)),
    }


def _read(options: LogOptions, rows: int) -> None:
    found = sum(batch.num_rows for piece in plan(options) for batch in batches(options, piece))
    assert found == rows, f"{found} rows were read, and there are {rows}"


def _loop(path: Path, count: int) -> pa.RecordBatch:
    """The same five columns of `count` entries, one by one."""
    data = path.read_bytes()
    topics, queues, offsets, times, bodies = [], [], [], [], []
    at = 0
    for _ in range(count):
        record = at + HEADER_SIZE
        (size,) = _SIZE.unpack_from(data, record)
        (queue,) = _QUEUE.unpack_from(data, record + 12)
        offset, _position = _OFFSETS.unpack_from(data, record + 20)
        (stored,) = _BORN.unpack_from(data, record + 56)
        (body_size,) = _BODY.unpack_from(data, record + 84)
        body = record + 88
        topic = body + body_size + 1
        topics.append(data[topic : topic + data[topic - 1]].decode())
        queues.append(queue)
        offsets.append(offset)
        times.append(stored)
        bodies.append(data[body : body + body_size])
        at = record + size
    return pa.RecordBatch.from_pydict(
        dict(zip(COLUMNS, (topics, queues, offsets, times, bodies), strict=True))
    )


def _in_spark(spark: Any, root: Path, rows: int) -> dict[str, Job]:
    def read(**given: str) -> None:
        frame = spark.read.format("dledger-log").options(**given).load(str(root / "n0"))
        frame.write.format("noop").mode("overwrite").save()

    table = str(root / "table")
    spark.read.format("dledger-log").load(str(root / "n0")).write.parquet(table)
    return {
        "all": Job(rows, read),
        "pruned": Job(rows, partial(read, columns=PRUNED)),
        "two": Job(rows, partial(read, columns=TWO)),
        "parquet": Job(
            rows,
            lambda: spark.read.parquet(table).write.format("noop").mode("overwrite").save(),
        ),
    }


def _result(row_bytes: float, plain: dict[str, list[float]], found: Turns) -> dict[str, Any]:
    middle = {name: median(rates) for name, rates in plain.items()}
    bars: dict[str, Any] = {
        "indexed_met": middle["indexed"] >= INDEXED_BAR,
        "searched_met": middle["searched"] >= SEARCHED_BAR,
    }
    ratios: dict[str, dict[str, float]] = {}
    if found.rates:
        rows = {name: median(rates) for name, rates in found.rates.items()}
        ratios = {
            "all_to_parquet": found.ratios("all", "parquet"),
            "two_to_all": found.ratios("two", "all"),
        }
        bars |= {
            "all_met": rows["all"] >= ROWS_BAR,
            "pruned_met": rows["pruned"] >= PRUNED_BAR,
            "parquet_met": ratios["all_to_parquet"]["time"] >= PARQUET_BAR,
            "two_met": ratios["two_to_all"]["time"] >= TWO_BAR,
        }
    return {
        "row_bytes": round(row_bytes, 1),
        "mb_per_s_median": {name: round(rate / 1e6) for name, rate in middle.items()},
        "mb_per_s_best": {name: round(max(rates) / 1e6) for name, rates in plain.items()},
        "indexed_to_loop": round(middle["indexed"] / middle["loop"], 2),
        "spark": compared(found.rates, "parquet") if found.rates else {},
        "cpu_us_a_row": {name: round(median(cpu) * 1e6, 2) for name, cpu in found.cpu.items()},
        "cpu_us_by_part": {name: _by_part(turns) for name, turns in found.parts.items()},
        "ratios": ratios,
        "bars": bars,
    }


def _by_part(turns: list[dict[str, float]]) -> dict[str, float]:
    """Microseconds of processor time a row, of Spark's JVM and of Python."""
    return {
        part: round(median(turn.get(part, 0.0) for turn in turns) * 1e6, 2)
        for part in ("jvm", "python")
    }


@click.command("spark-log")
@click.option(
    "--entries", type=click.IntRange(4096), default=2_000_000, show_default=True, help="Of the log."
)
@repeats_option
@click.option("--no-spark", is_flag=True, help="One core, without Spark.")
@folder_option
@report_option
def command(entries: int, repeats: int, no_spark: bool, folder: str, output: str) -> None:
    """A raw log to Arrow, and to Spark: bytes and rows per second, beside a loop and Parquet."""
    tell(run(Options(entries, repeats, folder, not no_spark)), output)
