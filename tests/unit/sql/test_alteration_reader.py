"""Alterations: every form of ALTER TABLE is read exactly, or said not to be understood."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import NULL, Default
from airflow_provider_binlog.sql.alteration_reader import read_alterations, read_elements
from airflow_provider_binlog.sql.columns import SqlType
from airflow_provider_binlog.sql.defaults import Literal, LiteralKind
from airflow_provider_binlog.sql.definitions import (
    FIRST,
    AddColumn,
    AddPrimaryKey,
    Alteration,
    ChangeColumn,
    ChangeIndexes,
    ConvertCharset,
    Definition,
    DropColumn,
    DropPrimaryKey,
    Opaque,
    RenameColumn,
    RewriteRows,
    SetComment,
    SetDefault,
)
from airflow_provider_binlog.sql.lexer import NO_BACKSLASH_ESCAPES, Session, split_words

UNKNOWN = Definition()


def read(
    sql: str, flavor: Flavor = Flavor.MARIADB, *, sql_mode: int = 0, ignore: bool = False
) -> tuple[Alteration, ...]:
    session = Session(flavor, sql_mode=sql_mode)
    words = split_words(sql, session)
    return read_alterations(words, session, ignore=ignore)


def without_definitions(alterations: tuple[Alteration, ...]) -> list[Alteration]:
    """Return the alterations as if definitions said nothing: `test_definitions.py` is for them."""
    plain: list[Alteration] = []
    for each in alterations:
        if isinstance(each, AddColumn):
            plain.append(AddColumn(each.name, UNKNOWN, NULL, each.after, each.optional))
        elif isinstance(each, ChangeColumn):
            plain.append(ChangeColumn(each.old, each.name, UNKNOWN, each.after, each.optional))
        else:
            plain.append(each)
    return plain


def added(name: str, after: str | None = None, *, optional: bool = False) -> AddColumn:
    return AddColumn(name, UNKNOWN, NULL, after, optional)


def changed(
    old: str, name: str, after: str | None = None, *, optional: bool = False
) -> ChangeColumn:
    return ChangeColumn(old, name, UNKNOWN, after, optional)


# As they were once overlooked.
ROW_LOSSES = [
    ("DROP /*x*/ PARTITION p", "ran DROP PARTITION"),
    ("DROP /*!50100 PARTITION */ p, q", "ran DROP PARTITION"),
    ("DROP PARTITION IF EXISTS p", "ran DROP PARTITION"),
    ("TRUNCATE -- x\n PARTITION p", "ran TRUNCATE PARTITION"),
    ("TRUNCATE PARTITION ALL", "ran TRUNCATE PARTITION"),
    ("DISCARD PARTITION p, q TABLESPACE", "ran DISCARD PARTITION"),
    ("IMPORT PARTITION p TABLESPACE", "ran IMPORT PARTITION"),
    ("IMPORT TABLESPACE", "ran IMPORT TABLESPACE"),
    ("ENGINE = BLACKHOLE", "gave the table the storage engine BLACKHOLE"),
    ("ROW_FORMAT='x' engine `blackhole`", "gave the table the storage engine BLACKHOLE"),
    ("UNION = (u, v)", "gave the table the option UNION"),
]

CASES: list[tuple[str, list[Alteration]]] = [
    ("ADD b int", [added("b")]),
    ("add column `b` INT first", [added("b", FIRST)]),
    ("ADD b int AFTER a", [added("b", "a")]),
    ("ADD `b` int AFTER `first`", [added("b", "first")]),
    ("ADD b int /*!50000 AFTER a */", [added("b", "a")]),
    ("ADD b int /* AFTER a */", [added("b")]),
    ("ADD b int -- AFTER a\n", [added("b")]),
    ("ADD b int COMMENT 'x, ADD c int AFTER a'", [added("b")]),
    ("ADD b decimal(10,2) DEFAULT (1,2), ADD c int", [added("b"), added("c")]),
    ("ADD first int, ADD after int AFTER first", [added("first"), added("after", "first")]),
    ("ADD `INDEX` int", [added("INDEX")]),
    # To Python their capitals are those of INDEX, FIRST and SET.
    ("ADD ındex int, ADD fırst int AFTER fırst", [added("ındex"), added("fırst", "fırst")]),
    ("DROP ındex, DROP ſet", [DropColumn("ındex"), DropColumn("ſet")]),
    ("ADD period int, ADD system int", [added("period"), added("system")]),
    ("ADD vector int", [added("vector")]),
    (
        "ADD (b int, `c` int, KEY (b), PRIMARY KEY (c))",
        [added("b"), added("c"), AddPrimaryKey((("c", 0),))],
    ),
    ("ADD COLUMN (b int)", [added("b")]),
    ("ADD COLUMN IF NOT EXISTS b int FIRST", [added("b", FIRST, optional=True)]),
    (
        "ADD COLUMN IF NOT EXISTS (b int, c int)",
        [added("b", optional=True), added("c", optional=True)],
    ),
    ("ADD b int NOT NULL PRIMARY KEY", [added("b"), AddPrimaryKey((("b", 0),))]),
    ("ADD b int KEY FIRST", [added("b", FIRST), AddPrimaryKey((("b", 0),))]),
    ("ADD b int UNIQUE KEY", [added("b"), ChangeIndexes()]),
    ("ADD b serial", [added("b"), ChangeIndexes()]),
    ("ADD b int AFTER a PARTITION BY HASH (b) PARTITIONS 2", [added("b", "a")]),
    ("ADD b int FIRST REMOVE PARTITIONING", [added("b", FIRST)]),
    ("ADD b int AS (a + 1) STORED AFTER a", [added("b", "a")]),
    ("DROP b", [DropColumn("b")]),
    ("DROP COLUMN `b`, DROP c CASCADE", [DropColumn("b"), DropColumn("c")]),
    ("DROP COLUMN IF EXISTS b RESTRICT", [DropColumn("b", optional=True)]),
    ("DROP `INDEX`", [DropColumn("INDEX")]),
    ("DROP system", [DropColumn("system")]),
    ("CHANGE a b int", [changed("a", "b")]),
    ("CHANGE COLUMN IF EXISTS a b int AFTER c", [changed("a", "b", "c", optional=True)]),
    ("CHANGE first after int AFTER first", [changed("first", "after", "first")]),
    ("MODIFY a bigint unsigned FIRST", [changed("a", "a", FIRST)]),
    ("MODIFY COLUMN a enum('x','AFTER b')", [changed("a", "a")]),
    (
        "RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        [RenameColumn("a", "b"), RenameColumn("b", "a")],
    ),
    ("RENAME COLUMN IF EXISTS a TO b", [RenameColumn("a", "b", optional=True)]),
    ("RENAME TO u, ADD b int", [added("b")]),
    ("RENAME INDEX i TO j, RENAME KEY k TO l, RENAME u", []),
    ("ADD PRIMARY KEY (a, b(10) DESC)", [AddPrimaryKey((("a", 0), ("b", 10)))]),
    ("ADD CONSTRAINT c PRIMARY KEY USING BTREE (`a`)", [AddPrimaryKey((("a", 0),))]),
    ("DROP PRIMARY KEY", [DropPrimaryKey()]),
    ("DROP INDEX `PRIMARY`", [DropPrimaryKey()]),
    ("DROP CONSTRAINT `primary`", [DropPrimaryKey()]),
    ("DROP INDEX i, DROP KEY IF EXISTS j", [ChangeIndexes(), ChangeIndexes()]),
    ("ADD UNIQUE (a), ADD CONSTRAINT UNIQUE (b)", [ChangeIndexes(), ChangeIndexes()]),
    ("ADD INDEX i (a, b), ADD KEY (a), ADD FULLTEXT (a), ADD VECTOR INDEX (v)", []),
    ("ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (a), ADD CHECK (a > 1)", []),
    ("ADD INDEX IF NOT EXISTS i (a), ADD (KEY IF NOT EXISTS (a))", []),
    ("ADD FOREIGN KEY IF NOT EXISTS f (a) REFERENCES u (a)", []),
    ("ADD CONSTRAINT f FOREIGN KEY IF NOT EXISTS f (a) REFERENCES u (a)", []),
    ("ADD CONSTRAINT IF NOT EXISTS `check` CHECK (a > 1)", []),
    ("ADD UNIQUE IF NOT EXISTS (a)", [ChangeIndexes()]),
    ("ADD CONSTRAINT c UNIQUE KEY IF NOT EXISTS (a)", [ChangeIndexes()]),
    ("ADD b int DEFAULT IF(1, 2, 3)", [added("b")]),
    ("DROP FOREIGN KEY f, DROP CHECK c, ADD CONSTRAINT CHECK (a IN (1, 2))", []),
    (
        "ALTER a SET DEFAULT 5, ALTER COLUMN `index` DROP DEFAULT, ALTER INDEX i INVISIBLE",
        [SetDefault("a", Literal(LiteralKind.NUMBER, "5")), SetDefault("index")],
    ),
    (
        "ALTER COLUMN IF EXISTS a SET DEFAULT (1, 2)",
        [SetDefault("a", Literal(LiteralKind.EXPRESSION, "( 1 , 2 )"), optional=True)],
    ),
    ("ALTER CHECK c NOT ENFORCED, ALTER CONSTRAINT d ENFORCED, ALTER KEY i IGNORED", []),
    ("CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin", [ConvertCharset("latin1")]),
    ("CONVERT TO CHARSET DEFAULT", [ConvertCharset(None)]),
    ("CONVERT TO CHARACTER SET utf8", [ConvertCharset(None)]),
    (
        "ENGINE=InnoDB ROW_FORMAT=DYNAMIC, ADD b int, COMMENT = 'ADD c int'",
        [added("b"), SetComment("ADD c int")],
    ),
    ("ENGINE=InnoDB COMMENT 'it''s' CHECKSUM 1", [SetComment("it's")]),
    ("COMMENT=''", [SetComment("")]),
    # The Spider engine connects with it.
    ('COMMENT=\'host "h", user "u", password "p"\'', [SetComment(None)]),
    ("PARTITION BY HASH (a) (PARTITION p COMMENT 'x')", []),
    ("DEFAULT CHARACTER SET latin1, CHARSET utf8mb4, AUTO_INCREMENT 5", []),
    ("FORCE, ALGORITHM=INPLACE, LOCK=NONE, DISABLE KEYS, WITHOUT VALIDATION", []),
    ("`PAGE_COMPRESSED`='0', ADD b int", [added("b")]),
    ("PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (9), PARTITION q VALUES IN (1))", []),
    ("ADD PARTITION (PARTITION p VALUES LESS THAN (9))", []),
    ("REORGANIZE PARTITION p, q INTO (PARTITION r VALUES LESS THAN (9))", []),
    ("TRUNCATE PARTITION p, q", [RewriteRows("ran TRUNCATE PARTITION")]),
    ("EXCHANGE PARTITION p WITH TABLE u", [RewriteRows("ran EXCHANGE PARTITION")]),
    ("CONVERT PARTITION p TO TABLE u", [RewriteRows("ran CONVERT PARTITION")]),
    ("DISCARD TABLESPACE", [RewriteRows("ran DISCARD TABLESPACE")]),
    ("", []),
]


@pytest.mark.parametrize(("sql", "reason"), ROW_LOSSES)
def test_what_changes_rows_without_row_events(sql: str, reason: str) -> None:
    assert read(sql) == (RewriteRows(reason),)


@pytest.mark.parametrize(("sql", "alterations"), CASES)
def test_what_an_alter_table_does(sql: str, alterations: list[Alteration]) -> None:
    assert without_definitions(read(sql)) == alterations


@pytest.mark.parametrize(
    "sql",
    [
        "ADD SYSTEM VERSIONING",
        "DROP SYSTEM VERSIONING",
        "WITH SYSTEM VERSIONING",
        "ADD PERIOD FOR SYSTEM_TIME (a, b)",
        "ADD PERIOD IF NOT EXISTS FOR p (a, b)",
        "ADD PRIMARY KEY (a, p WITHOUT OVERLAPS)",
        "ADD COLUMN IF NOT EXISTS (b int, PRIMARY KEY (b))",
        "DROP PERIOD FOR SYSTEM_TIME",
        "ADD b",
        "ADD b int AFTER",
        "ADD b int REFERENCES first",
        "ADD b int FIRST COMMENT 'x'",
        "ADD b int AFTER a COMMENT 'x'",
        "ADD (b int",
        "ADD COLUMN IF NOT EXISTS b int PRIMARY KEY",
        "ADD PRIMARY KEY IF NOT EXISTS (a)",
        "ADD CONSTRAINT c PRIMARY KEY IF NOT EXISTS (a)",
        "ADD (IF NOT EXISTS b int)",
        "ADD PRIMARY KEY (a(b))",
        "ADD PRIMARY KEY (a(²))",
        "DROP COLUMN a b",
        "DROP COLUMN 'a'",
        "CHANGE a",
        "MODIFY a",
        "RENAME COLUMN a b",
        "SOMETHING NEW",
        "ENGINE=InnoDB ADD b int",
        "ORDER BY a, b DESC, ADD e int",
        "ADD a int,, DROP b",
    ],
)
def test_what_is_not_understood_is_said_to_be(sql: str) -> None:
    assert any(isinstance(each, Opaque) for each in read(sql))


@given(
    st.lists(
        st.sampled_from(
            [
                *"(),`'= ab1",
                "ADD ",
                "DROP ",
                "COLUMN ",
                "AFTER ",
                "FIRST ",
                "CHANGE ",
                "KEY ",
                "int ",
            ]
        ),
        max_size=20,
    ),
    st.sampled_from(list(Flavor)),
)
def test_any_text_is_read(parts: list[str], flavor: Flavor) -> None:
    session = Session(flavor)
    with contextlib.suppress(UnsupportedError):
        words = split_words("".join(parts), session)
        read_alterations(words, session)
        read_alterations(words, session, ignore=True)
        read_elements(words, session)


def test_a_definition_says_what_it_says() -> None:
    (added_column,) = read("ADD e ENUM('a','it''s') CHARACTER SET latin1 NOT NULL AFTER b")

    assert added_column == AddColumn(
        "e",
        Definition(SqlType("enum", charset="latin1", values=("a", "it's")), nullable=False),
        Default("a"),
        "b",
    )


def test_a_backslash_under_no_backslash_escapes_ends_the_string() -> None:
    sql = r"MODIFY a INT COMMENT 'a\', DROP COLUMN n, ADD COLUMN n INT COMMENT 'b'"

    found = without_definitions(read(sql, sql_mode=NO_BACKSLASH_ESCAPES))

    assert found == [changed("a", "a"), DropColumn("n"), added("n")]


def test_utf8_is_of_one_meaning_on_mysql() -> None:
    assert read("CONVERT TO CHARSET utf8", Flavor.MYSQL) == (ConvertCharset("utf8mb3"),)


def test_the_default_of_one_column_says_nothing_of_another() -> None:
    new_default, new_column = read("ALTER n SET DEFAULT 3, ADD COLUMN a INT")

    assert new_default == SetDefault("n", Literal(LiteralKind.NUMBER, "3"))
    assert isinstance(new_column, AddColumn)
    assert new_column.initial_default == NULL


@pytest.mark.parametrize(
    "sql",
    ["ADD UNIQUE (a)", "MODIFY a TINYINT", "ADD b INT", "ADD INDEX (a)", "PARTITION BY HASH (a)"],
)
def test_alter_ignore_may_remove_rows(sql: str) -> None:
    assert RewriteRows("ran under ALTER IGNORE TABLE") in read(sql, ignore=True)
    assert not any(isinstance(each, RewriteRows) for each in read(sql))


def test_a_new_column_of_the_primary_key_holds_no_null() -> None:
    found = read("ADD a INT, ADD b INT, ADD PRIMARY KEY (A)")

    defaults = [each.initial_default for each in found if isinstance(each, AddColumn)]
    assert defaults == [Default("0"), NULL]
