"""Topics and raw logs as Spark DataFrames. See README.md.

import pipeline
pipeline.register(spark)
spark.read.format("dledger").options(servers="127.0.0.1:9876", subscribe="orders").load().show()
spark.read.format("dledger-log").load("/data/n0").groupBy("topic").count().show()
spark.read.format("dledger-archive").load("s3://bucket/archive").show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the data sources known to a session; the documented way (docs/spec/pipeline.md 7.1).

    Raises SparkMissing, an ImportError, without the extra `dledger[spark]` or with packages of
    other versions; it says what to install.
    """
    from pipeline.requirements import check_packages

    check_packages()
    from pipeline.archives.source import ArchiveSource
    from pipeline.rawlog.source import LogSource
    from pipeline.source.source import DledgerSource

    for source in (DledgerSource, LogSource, ArchiveSource):
        spark.dataSource.register(source)
