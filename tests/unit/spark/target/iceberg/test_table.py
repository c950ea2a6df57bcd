"""Iceberg's view of a table, and what its commits say."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from airflow_provider_binlog.spark.target.iceberg.table import commit_properties


def test_only_the_commits_of_the_body_have_the_properties() -> None:
    """A session serves many tables: the mark of one would be that of another's copied column."""
    settings = {"spark.sql.shuffle.partitions": "1"}
    session: Any = SimpleNamespace(
        conf=SimpleNamespace(set=settings.__setitem__, unset=settings.__delitem__)
    )

    with suppress(ValueError), commit_properties(session, {"binlog.applied": "7"}):
        assert settings["spark.sql.iceberg.snapshot-property.binlog.applied"] == "7"
        raise ValueError

    assert settings == {"spark.sql.shuffle.partitions": "1"}
