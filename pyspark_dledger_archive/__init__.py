"""Lets Spark find `dledger-archive` by itself: it imports top-level modules named pyspark_*."""

from pipeline.archives.source import ArchiveSource as DefaultSource

__all__ = ["DefaultSource"]
