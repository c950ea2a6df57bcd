"""Few rows of every mode, read by Arrow, or by Spark where the driver has no Arrow."""

from __future__ import annotations

from random import Random

import pytest

from airflow_provider_binlog.spark.collapse import source_rows
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.integration.test_merge_images import COLUMNS, Owner
from tests.integration.test_merge_multisets import SOURCES, change
from tests.unit.spark.history import RowImage
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format

OPTIONS = TableRules({"*.copies": TableOptions(mode="multiset")})


@in_either_format
@pytest.mark.parametrize("arrow", [True, False], ids=["by Arrow", "by Spark"])
def test_the_lake_is_what_the_tables_hold(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, *, arrow: bool
) -> None:
    monkeypatch.setattr(source_rows, "HAS_ARROW", arrow)
    chance, source = Random(20261129), workplace.new_source()
    whole = source.create(workplace.database, "whole", {"id": INT, "from": TEXT}, ("id",))
    widened = source.create(workplace.database, "widened", {"id": INT, "a.b": INT}, ("id",))
    partial = source.create(workplace.database, "partial", COLUMNS, ("history", "id"))
    copies = source.create(workplace.database, "copies", dict(SOURCES), ())
    log = source.create(workplace.database, "log", {"text": TEXT})
    owners = [Owner(partial, history, chance) for history in range(9)]
    for round_ in range(3):
        for id_ in range(round_ * 10, round_ * 10 + 10):
            whole.insert(**{"id": id_, "from": "new"})
            widened.insert(**{"id": id_, "a.b": id_})
            log.insert(text=str(id_))
        whole.swap(round_ * 10 + 1, round_ * 10 + 2, 99)
        whole.delete(round_ * 10 + 3)
        for owner in owners * 5:
            owner.step()
        change(copies, chance, 20)
        source.row_image = RowImage.FULL
        if round_ == 1:
            # One merge reads rows of both.
            widened.alter("...", {"id": BIGINT, "a.b": INT})
            widened.update(3, **{"a.b": 1})

        workplace.follow(whole, widened, partial, copies, table_options=OPTIONS)

        assert {row["text"] for row in workplace.found(log)} == {*map(str, range(round_ * 10 + 10))}
