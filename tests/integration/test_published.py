"""A consistent cut: what readers get of several tables, while merges run, is one state."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import ConfigurationError, StagingError
from airflow_provider_binlog.spark.published import Published, read_published
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT
from tests.unit.spark.workplace import sorted_rows
from tests.unit.test_docs import blocks

if TYPE_CHECKING:
    from tests.unit.spark.history import Source, Table
    from tests.unit.spark.workplace import Workplace

IN_A_CATALOG = TableRules({"*": TableOptions(target="{database}_published.{table}")})


class Shop:
    """Two tables, between which an amount moves, and what they held after each manifest."""

    def __init__(self, workplace: Workplace, rules: TableRules) -> None:
        self.workplace, self.rules = workplace, rules
        self.source: Source = workplace.new_source()
        types = {"id": INT, "amount": BIGINT}
        self.tables: list[Table] = [
            self.source.create(workplace.database, name, types, ("id",))
            # A session catalog has no other names.
            for name in ("till", "from" if rules.by_glob else "a/b")
        ]
        self.held: dict[int, list[list[str]]] = {}
        self.cuts = 0
        for table in self.tables:
            table.insert(id=1, amount=100)

    @property
    def names(self) -> list[str]:
        return [".".join(table.name) for table in self.tables]

    def move(self, amount: int) -> None:
        """Move an amount from one table to the other."""
        for table, sign in zip(self.tables, (-1, 1), strict=True):
            table.update(1, amount=table.rows[1][1] + sign * amount)

    def merge(self) -> None:
        """Stage what happened and merge it, read by others whenever a table is committed."""
        manifest = self.source.commit()
        self.held[manifest.stop.offset] = [sorted_rows(table.values) for table in self.tables]
        lake = type(self.workplace.lake)

        def read_after(commit: Any) -> Any:
            def committed(*arguments: Any) -> Any:
                done = commit(*arguments)
                if len(self.held) > 1:
                    self.check()
                return done

            return committed

        with pytest.MonkeyPatch.context() as patch:
            for name in ("create_as", "evolve", "merge", "overwrite"):
                patch.setattr(lake, name, read_after(getattr(lake, name)))
            self.workplace.merge(table_options=self.rules, threads=1)
        assert self.check().position == manifest.stop

    def check(self) -> Published:
        """Compare a cut with what the tables held at its position."""
        cut = self.read(self.names)
        assert cut.position is not None
        found = [
            sorted_rows([row.asDict() for row in frame.collect()]) for frame in cut.tables.values()
        ]
        assert found == self.held[cut.position.offset]
        self.cuts += 1
        return cut

    def read(self, tables: list[str], **more: Any) -> Published:
        staging = f"{self.workplace.root}/staging"
        session = self.workplace.spark.newSession()
        return read_published(session, staging, self.source.name, tables, **more)

    def read_as_the_page(self, published: str) -> list[Published]:
        """Return what the page's blocks read: the newest cut, and that of a record."""
        names: dict[str, Any] = {"spark": self.workplace.spark, "published": published}
        here = {
            "s3a://lake/staging": f"{self.workplace.root}/staging",
            '"shop"': f'"{self.source.name}"',
            "shop.orders": self.names[0],
            "shop.items": self.names[1],
            "order_id": "id",
        }
        cuts = []
        for block in blocks("docs/consistent-reads.md", "python"):
            code = re.sub("|".join(here), lambda of_page: here[of_page[0]], block)
            exec(code, names)  # noqa: S102  It is ours.
            cuts.append(names["cut"])
        return cuts


@pytest.mark.parametrize(
    ("workplace", "rules"),
    [
        pytest.param("delta", TableRules(), marks=pytest.mark.slow),
        pytest.param("delta", IN_A_CATALOG, marks=pytest.mark.slow),
        ("iceberg", TableRules()),
    ],
    ids=["delta by path", "delta by name", "iceberg"],
    indirect=["workplace"],
)
def test_readers_during_merges_get_one_state_of_the_source(
    workplace: Workplace, rules: TableRules
) -> None:
    shop = Shop(workplace, rules)
    shop.merge()
    shop.move(1)
    shop.merge()
    for table in shop.tables:
        table.alter("ADD note", {**table.types, "note": TEXT})
    shop.move(10)
    shop.tables[0].truncate()
    shop.merge()

    # After each of three merges, and within two of them: the rows of both tables, and the columns.
    assert shop.cuts == 3 + 4 + 2


@pytest.mark.parametrize("workplace", ["iceberg"], indirect=True)
def test_a_table_that_is_not_live_is_read_as_it_was_when_all_were(workplace: Workplace) -> None:
    shop = Shop(workplace, TableRules())
    shop.merge()
    whole = shop.check()
    assert [cut.id for cut in shop.read_as_the_page(whole.id)] == [whole.id] * 2
    shop.move(1)
    shop.tables[1].rewrite("a partition was dropped")
    shop.source.commit()
    workplace.try_merge()

    assert shop.check().id == whole.id
    alone = shop.read(shop.names[:1])
    assert alone.id > whole.id
    assert [*shop.read([]).tables] == shop.names[:1]
    assert shop.read(shop.names, published=whole.id).position == whole.position
    with pytest.raises(StagingError, match=r"stale: rows changed .* a partition was dropped"):
        shop.read(shop.names, published=alone.id)
    with pytest.raises(StagingError, match=r"shop\.none=no merge has read it"):
        shop.read(["shop.none"])


@pytest.mark.parametrize("workplace", ["iceberg"], indirect=True)
def test_of_several_lakes_one_is_named_and_a_tag_names_its_versions(workplace: Workplace) -> None:
    shop = Shop(workplace, TableRules())
    with pytest.raises(ConfigurationError, match="nothing is published"):
        shop.read([])
    shop.merge()
    workplace.merge(table_options=IN_A_CATALOG, tag="a day")
    shop.move(1)
    shop.source.commit()
    workplace.merge(table_options=IN_A_CATALOG)

    with pytest.raises(ConfigurationError, match="name the lake"):
        shop.read([])
    with pytest.raises(ConfigurationError, match="name the lake") as several:
        shop.read([], lake=workplace.catalog)
    first = next(word for word in str(several.value).split() if word.endswith(":"))
    assert shop.read([], lake=first[:-1].removeprefix("lakes=")).tables.keys() == {*shop.names}
    rows = {
        name: workplace.spark.sql(
            f"SELECT amount FROM {workplace.catalog}.{workplace.database}_published.`{name}` "
            "VERSION AS OF 'a day'"
        ).collect()
        for name in ("till", "a%2Fb")
    }
    assert [[row.amount for row in each] for each in rows.values()] == [[100], [100]]
    workplace.merge(table_options=IN_A_CATALOG, tag="a day")
