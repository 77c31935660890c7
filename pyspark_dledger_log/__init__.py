"""Lets Spark find `dledger-log` by itself: it imports every top-level module named pyspark_*."""

from pipeline.rawlog.source import LogSource as DefaultSource

__all__ = ["DefaultSource"]
