"""Lets Spark find `dledger` by itself: it imports every top-level module named pyspark_*."""

from pipeline.source.source import DledgerSource as DefaultSource

__all__ = ["DefaultSource"]
