"""Keys that may be NULL: a table without a primary key, merged by a column that the user chose."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format


@in_either_format
def test_a_null_key_is_found_beside_others_in_a_large_table(workplace: Workplace) -> None:
    """Its rows are known by their numbers here: the first one has the NULL."""
    source = workplace.new_source()
    table = source.create(workplace.database, "visits", {"id": BIGINT, "note": TEXT})
    rules = TableRules({".".join(table.name): TableOptions(key=("id",))})
    table.insert(id=None, note="nobody")
    for start in (10, 20):
        for id_ in range(start, start + 5):
            table.insert(id=id_, note="new")
        source.commit()
        workplace.merge(table_options=rules)
    assert workplace.state(table).files > 1

    table.update(8, note="changed")
    table.update(1, note="changed")
    workplace.follow(table, table_options=rules)

    table.update(1, id=99)
    table.update(3, id=None)
    workplace.follow(table, table_options=rules)

    table.update(8, note="changed again")
    table.delete(3)
    never = replace(BIGINT, nullable=False, default=None)
    table.alter("MODIFY id BIGINT NOT NULL", {"id": never, "note": TEXT})
    table.update(4, note="changed")
    workplace.follow(table, table_options=rules)


def test_null_in_a_key_that_is_not_null_is_refused_before_a_column_is_added(
    quick_workplace: Workplace,
) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT, "n": BIGINT}, ("id",))
    table.insert(id=1, n=1)
    source.commit()
    quick_workplace.merge()
    table.alter("ADD COLUMN note TEXT", table.types | {"note": TEXT})
    table.insert(id=None, n=2, note="new")
    source.commit()

    failed = quick_workplace.failure()

    assert failed.error is not None
    assert "a staged row has NULL in a key column that is NOT NULL" in failed.error
    assert [*quick_workplace.state(table).columns] == ["id", "n"]
