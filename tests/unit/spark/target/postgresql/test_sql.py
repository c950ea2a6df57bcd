"""SQL of PostgreSQL tables: columns with values, rows that lack some, keys with NULL."""

from __future__ import annotations

from airflow_provider_binlog.spark.target.postgresql.sql import KeyedStatements, add_column


def test_a_column_with_a_value_in_older_rows_keeps_no_default() -> None:
    assert add_column("t", "n", "integer", "'7'::integer") == [
        """ALTER TABLE t ADD COLUMN "n" integer DEFAULT '7'::integer""",
        'ALTER TABLE t ALTER COLUMN "n" DROP DEFAULT',
    ]


def test_columns_that_a_row_lacks_keep_their_values() -> None:
    (statement,) = KeyedStatements("t", ["id", "from"], [0], "s1", [[1]]).merges()

    assert 'ON t."id" = s.c0 WHEN MATCHED AND s.deleted THEN DELETE' in statement
    assert '"from" = CASE WHEN s.held0 THEN s.c1 ELSE t."from" END' in statement


def test_rows_with_null_in_the_key_are_merged_apart() -> None:
    some, others = KeyedStatements("t", ["id"], [0], "s1", nulls=True).merges()

    assert '(SELECT * FROM s1 WHERE NOT (c0 IS NULL)) AS s ON t."id" = s.c0' in some
    assert 'WHERE (c0 IS NULL)) AS s ON t."id" IS NOT DISTINCT FROM s.c0' in others
