"""A schema that a user gives to a log or an archive is checked before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs pyspark, from the extra dledger[spark]")

from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from pipeline.archives.source import ArchiveSource
from pipeline.options import OptionError
from pipeline.rawlog.source import LogSource


@pytest.mark.parametrize("source", [LogSource, ArchiveSource])
@pytest.mark.parametrize(
    ("field", "said"),
    [
        (StructField("body", StringType()), "there is no column body"),
        (StructField("offset", IntegerType()), "its column offset is int and messages have bigint"),
        (StructField("topic", StringType()), "its columns are others"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(source: Any, field: StructField, said: str) -> None:
    found = source({"path": "/data/n0"})
    with pytest.raises(OptionError, match=said):
        found.reader(StructType([field]))
    assert found.reader(found.schema())


def test_a_schema_that_does_not_fit_an_archive_is_refused_to_a_stream() -> None:
    found = ArchiveSource({"path": "/data/n0"})
    with pytest.raises(OptionError, match="does not fit"):
        found.streamReader(StructType([StructField("body", StringType())]))
    assert found.streamReader(found.schema())
