"""Commands and benchmarks of the pipeline, for the `dledger` command line (entry point groups
`dledger.commands` and `dledger.benches`).

Nothing heavy is imported before one runs.
"""

from __future__ import annotations

from cluster.commands.registry import Lazy

commands: dict[str, Lazy] = {
    "pipeline": Lazy("pipeline.jobs.commands:pipeline", "Archive, audit, judge, replay; on Spark."),
}
benches: dict[str, Lazy] = {
    "spark-all": Lazy("pipeline.bench.everything:command", "All of these, and one table."),
    "spark-log": Lazy("pipeline.bench.raw_log:command", "A raw log to Arrow and to Spark."),
    "spark-executors": Lazy(
        "pipeline.bench.executors:command", "A raw log by 1, 2 and 4 executors of a cluster."
    ),
    "spark-source": Lazy("pipeline.bench.topic_source:command", "Read a topic in Spark: rows/s."),
    "spark-kills": Lazy("pipeline.bench.kills:command", "SIGKILL a streaming driver, N times."),
    "spark-jobs": Lazy("pipeline.bench.jobs:command", "Archive, audit, rebuild, history check."),
    "spark-history": Lazy("pipeline.bench.history:command", "Check 50 million operations."),
    "spark-kafka": Lazy(
        "pipeline.bench.kafka.command:command", "Kafka's Spark connector and ours, by turns."
    ),
    "spark-sink": Lazy("pipeline.bench.sink:command", "Write a topic: encoded, sent, from Spark."),
}
