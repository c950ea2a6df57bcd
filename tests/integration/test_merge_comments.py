"""Comments of tables and columns, from real servers into lake tables: `comments=True`."""

from __future__ import annotations

from contextlib import closing

import pytest

from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.fixtures.mysql import flush_log
from tests.support.pipeline import Pipeline, in_either_pipeline
from tests.support.snapshots import take

pytestmark = [pytest.mark.server, pytest.mark.spark]


def at_source(pipeline: Pipeline, table: str) -> dict[str, str]:
    """Return the comments that the server prints: of a table as that of the column ''."""
    name = (pipeline.database.name, table)
    with closing(pipeline.database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT '', TABLE_COMMENT FROM information_schema.TABLES"
            " WHERE (TABLE_SCHEMA, TABLE_NAME) = (%s, %s) UNION ALL"
            " SELECT COLUMN_NAME, COLUMN_COMMENT FROM information_schema.COLUMNS"
            " WHERE (TABLE_SCHEMA, TABLE_NAME) = (%s, %s)",
            (*name, *name),
        )
        return dict(cursor.fetchall())


def in_lake(pipeline: Pipeline, table: str) -> dict[str, str]:
    """Return the comments that Spark prints."""
    workplace = pipeline.workplace
    target = workplace.lake.target(pipeline.database.name, table)
    columns = workplace.spark.sql(f"DESCRIBE TABLE {target}").collect()
    found = {
        row["col_name"]: row["comment"] or ""
        for row in columns
        if row["col_name"] and not row["col_name"].startswith("#")
    }
    if workplace.format == "delta":
        (detail,) = workplace.spark.sql(f"DESCRIBE DETAIL {target}").collect()
        return found | {"": detail["description"] or ""}
    rows = workplace.spark.sql(f"DESCRIBE TABLE EXTENDED {target}").collect()
    said = [row["data_type"] for row in rows if row["col_name"] == "Comment"]
    return found | {"": said[0] if said else ""}


@in_either_pipeline
def test_comments_are_those_of_the_server(pipeline: Pipeline) -> None:
    database, workplace = pipeline.database, pipeline.workplace
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        for statement in (
            "SET SESSION sql_log_bin = 0",
            (
                "CREATE TABLE old (id INT PRIMARY KEY COMMENT 'it''s \"one\"', `from` INT, b INT"
                " COMMENT 'größer') COMMENT = 'before the log'"
            ),
            "INSERT INTO old VALUES (1, 1, 1)",
        ):
            cursor.execute(statement)
    flush_log(database.server)
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY COMMENT 'number', a INT, b INT COMMENT 'unset')"
        " COMMENT='in the log'",
        "INSERT INTO t VALUES (1, 1, 1)",
        "CREATE TABLE nokey (a INT COMMENT 'a', b INT) COMMENT='changes'",
        "INSERT INTO nokey VALUES (1, 1)",
    )
    pipeline.capture()
    take(database, "old", store=workplace.store, source_name=workplace.source)
    # Without the option a lake table has none.
    assert pipeline.merge() == {}
    assert set(in_lake(pipeline, "t").values()) == {""}

    pipeline.table_options = TableRules({"*": TableOptions(comments=True)})
    take(
        database,
        "old",
        store=workplace.store,
        source_name=workplace.source,
        created_by="another run",
    )
    database.execute(
        "INSERT INTO nokey (b) VALUES (2)", "UPDATE old SET b = 2", "UPDATE t SET b = 2"
    )
    pipeline.capture()
    assert pipeline.merge() == {}
    for name in ("t", "old"):
        assert in_lake(pipeline, name) == at_source(pipeline, name)
    assert at_source(pipeline, "nokey").items() <= in_lake(pipeline, "nokey").items()

    database.execute(
        "ALTER TABLE t COMMENT = '', MODIFY b INT, ADD c INT COMMENT 'x' FIRST",
        "ALTER TABLE t RENAME COLUMN a TO d",
        "ALTER TABLE old MODIFY `from` BIGINT COMMENT 'wider', COMMENT 'after'",
        "UPDATE old SET b = 3",
        "INSERT INTO t VALUES (3, 3, 3, 3)",
    )
    workplace.spark.sql(
        f"ALTER TABLE {workplace.lake.target(database.name, 't')} ALTER COLUMN a COMMENT 'by hand'"
    )
    pipeline.capture()
    assert pipeline.merge() == {}
    assert in_lake(pipeline, "old") == at_source(pipeline, "old")
    # What the source says nothing of stays as somebody wrote it.
    assert in_lake(pipeline, "t") == at_source(pipeline, "t") | {"d": "by hand"}
    assert pipeline.differences(but=["nokey"]) == []
