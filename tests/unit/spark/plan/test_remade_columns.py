"""Remade columns: names that stand for another column behind ALTER TABLEs."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.spark.plan.remade_columns import read_remade_columns
from tests.unit.spark.plans import statement


@pytest.mark.parametrize(
    ("texts", "names", "left"),
    [
        (["DROP COLUMN n, ADD COLUMN n INT"], "n", "n"),
        (["drop `N`", "add (k int, n int default 1, KEY (k)), ALGORITHM=INPLACE"], "k n", "n"),
        (["DROP COLUMN n"], "", ""),
        (["ADD n INT"], "n", ""),
        (["ADD COLUMN IF NOT EXISTS n INT"], "", ""),
        (["DROP COLUMN IF EXISTS n, ADD COLUMN IF NOT EXISTS n INT"], "n", "n"),
        (["ADD n INT", "DROP n"], "", ""),
        (["RENAME COLUMN a TO b"], "b", ""),
        (["RENAME COLUMN a TO b, RENAME COLUMN b TO a"], "a b", "a b"),
        (["CHANGE a b INT, CHANGE COLUMN `b` `a` ENUM('x,y', \"DROP\") FIRST"], "a b", "a b"),
        (["RENAME COLUMN a TO b", "RENAME COLUMN b TO a"], "", ""),
        (["CHANGE a tmp INT", "CHANGE b a INT", "CHANGE tmp b INT"], "a b", "a b"),
        (["CHANGE n n BIGINT NOT NULL, MODIFY m INT, ALTER COLUMN k SET DEFAULT 1"], "", ""),
        (["ADD KEY (n), ADD UNIQUE n (n), DROP INDEX n, RENAME KEY a TO b"], "", ""),
        (["DROP /* n, */ m, COMMENT 'ADD m INT, ADD m INT' /*!80000 , ADD m INT */"], "m", "m"),
        (["ADD CONSTRAINT c CHECK (n > 0), DROP CONSTRAINT c, DROP PARTITION p, FORCE"], "", ""),
        (["PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9), PARTITION p1 x)"], "", ""),
        ([""], "", ""),
    ],
)  # fmt: skip
def test_names(texts: list[str], names: str, left: str) -> None:
    heads = ["ALTER TABLE orders", "ALTER ONLINE TABLE IF EXISTS `shop` . `or``ders`"]
    for head in heads:
        found = read_remade_columns(statement(1, "ALTER TABLE", f"{head} {t}") for t in texts)

        assert (found.names, found.left) == (frozenset(names.split()), frozenset(left.split()))


@pytest.mark.parametrize(
    "text", ["DROP", "CHANGE a", "RENAME COLUMN a", "ADD (", "ADD", ",,(", "'"]
)
def test_words_that_are_no_statement_say_nothing(text: str) -> None:
    found = read_remade_columns([statement(1, "ALTER TABLE", f"ALTER TABLE orders {text}")])

    assert found.names == frozenset()
