"""Histories of tables, for which the log alone does not say the schemas: names, keys, values."""

from __future__ import annotations

from dataclasses import dataclass, field

SPARSE = {"mysql97": "MINIMAL", "mariadb1011": "NO_LOG", "mariadb118": "NO_LOG"}
SERVERS = list(SPARSE)
MYSQL = ["mysql97"]


@dataclass(frozen=True)
class Past:
    """A history: what happens before the range, in it, and after it before it is read."""

    title: str
    during: list[str]
    before: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    on: list[str] = field(default_factory=lambda: SERVERS)


ROWS = "INSERT INTO t VALUES (1, 'a', 'b', 10, 20), (2, 'c', 'd', 30, 40)"
T = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), x INT, y INT)"
T += " DEFAULT CHARSET=utf8mb4"
EVERY = (
    "CREATE TABLE t (id BIGINT UNSIGNED NOT NULL, big BIGINT UNSIGNED, small TINYINT,"
    " d DECIMAL(9,2) UNSIGNED, f FLOAT UNSIGNED, l1 VARCHAR(20) CHARACTER SET latin1,"
    " l2 TEXT CHARACTER SET koi8r, c CHAR(9) CHARACTER SET utf8mb4, b BINARY(5), vb VARBINARY(9),"
    r" bl BLOB, e ENUM('x','it''s','a\\b','ü') CHARACTER SET latin1,"
    " s SET('p','q','日') CHARACTER SET ujis, dt DATETIME(3), ts TIMESTAMP(6) NULL, tm TIME,"
    " ye YEAR, bi BIT(9), p POINT, PRIMARY KEY (c(3), id))"
)
EVERY_ROW = (
    "INSERT INTO t (id, big, small, d, f, l1, l2, c, b, vb, bl, e, s, dt, ts, tm, ye, bi) VALUES"
    " (18446744073709551615, 9223372036854775808, -1, 1.5, 2.5, 'grün', 'привет', 'schlüssel', 'b',"
    " 'vb', 'bl', 'ü', 'p,日', '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.678901',"
    " '-12:00:00', 2026, b'101')"
)


def ghost(alteration: str) -> list[str]:
    """Return what gh-ost does to `t`."""
    return [
        "CREATE TABLE _t_gho LIKE t",
        f"ALTER TABLE _t_gho {alteration}",
        "UPDATE t SET a = 'e' WHERE id = 1",
        "INSERT IGNORE INTO _t_gho (id, a, x, y) SELECT id, a, x, y FROM t LOCK IN SHARE MODE",
        "UPDATE t SET x = x + 1",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "INSERT INTO t (id, z, a, x, y) VALUES (3, 7, 'f', 50, 60)",
        "DROP TABLE _t_del",
        "UPDATE t SET z = 8 WHERE id = 3",
    ]


ADDED = "ADD COLUMN z INT NOT NULL DEFAULT 5 AFTER id"
REPLACED = f"{ADDED}, DROP COLUMN b"
WITH_ENUM = (
    "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a', 'b') CHARSET latin1,"
    " s SET('x') COLLATE latin1_bin)"
)
NEW_VALUES = (
    "ALTER TABLE t MODIFY e ENUM('b', 'a', 'c''d') CHARACTER SET latin1,"
    " MODIFY s SET('x', 'y') CHARACTER SET latin1"
)
UNIQUE = (
    "CREATE TABLE t (a INT, b INT NOT NULL, c INT NOT NULL, UNIQUE (a), UNIQUE z (c), UNIQUE y (b))"
)
ALIKE = (
    "CREATE TABLE t (id INT PRIMARY KEY, u UUID, i INET6, b BINARY(16), b4 BINARY(4), j JSON,"
    " x VARCHAR(9)) CHARACTER SET = latin1"
)
ALIKE_ROW = (
    "INSERT INTO t VALUES (1, '123e4567-e89b-12d3-a456-426655440000', '::1', 'b', 'c',"
    " '{\"a\": 1}', 'xx')"
)
NEW = (
    "CREATE TABLE _t_new (id INT NOT NULL, a VARCHAR(20), b VARCHAR(20), x INT, y INT,"
    " PRIMARY KEY (id)) DEFAULT CHARSET=utf8mb4"
)
TRIGGER = (
    "CREATE TRIGGER pt_ins AFTER INSERT ON t FOR EACH ROW REPLACE INTO _t_new (id, a, b, y, x)"
    " VALUES (NEW.id, NEW.a, NEW.b, NEW.x, NEW.y)"
)
COPY = (
    "INSERT LOW_PRIORITY IGNORE INTO _t_new (id, a, b, y, x) SELECT id, a, b, x, y FROM t"
    " LOCK IN SHARE MODE"
)
PT_OSC = [
    NEW,
    "ALTER TABLE _t_new RENAME COLUMN x TO y, RENAME COLUMN y TO x",
    TRIGGER,
    "INSERT INTO t VALUES (3, 'e', 'f', 50, 60)",
    COPY,
    "RENAME TABLE t TO _t_old, _t_new TO t",
    "DROP TABLE IF EXISTS _t_old",
    "DROP TRIGGER IF EXISTS pt_ins",
    "UPDATE t SET x = 99 WHERE id = 3",
]

HISTORIES = [
    Past("nothing altered", [EVERY, EVERY_ROW, "UPDATE t SET small = 5", "DELETE FROM t"]),
    # Updates of generated columns are not logged by every version of MariaDB.
    Past(
        "a generated column",
        [
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, g INT AS (a + 1) STORED)",
            "INSERT INTO t (id, a) VALUES (1, 2)",
            "DELETE FROM t",
        ],
    ),
    Past("altered before", [ROWS], [T, "ALTER TABLE t RENAME COLUMN x TO z"]),
    Past(
        "columns of one type change names after it",
        [T, ROWS],
        later=["ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"],
    ),
    Past(
        "columns of one type change names between",
        [T, ROWS, "ALTER TABLE t CHANGE x y INT, CHANGE y x INT", "UPDATE t SET x = 5"],
    ),
    Past(
        "columns of one type change order between",
        [T, ROWS, "ALTER TABLE t MODIFY y INT AFTER a", "UPDATE t SET x = 5"],
        # A moved column may have been at any position: the CREATE TABLE says at which.
    ),
    Past(
        "columns are added between, before and after",
        [
            T,
            ROWS,
            "ALTER TABLE t ADD m BIGINT UNSIGNED FIRST",
            "ALTER TABLE t ADD n ENUM('k', 'l') CHARSET latin1 AFTER a",
            "UPDATE t SET n = 'l', m = 18446744073709551615",
            "ALTER TABLE t ADD q INT",
            "UPDATE t SET q = 5",
        ],
        [],
        ["ALTER TABLE t ADD r INT AFTER id, ADD COLUMN w TEXT CHARACTER SET latin1 FIRST"],
    ),
    Past(
        "altered before the first row",
        ["ALTER TABLE t DROP b, ADD c INT", "DELETE FROM t"],
        [T, ROWS],
    ),
    Past(
        "a column is dropped",
        [T, ROWS, "ALTER TABLE t DROP COLUMN b", "UPDATE t SET a = 'z'"],
        on=MYSQL,
    ),
    Past(
        "enum values are added at the end",
        [
            WITH_ENUM,
            "INSERT INTO t VALUES (1, 'b', 'x')",
            NEW_VALUES,
            "UPDATE t SET e = 'c''d', s = 'x,y'",
            "ALTER TABLE t MODIFY e ENUM('b', 'c''d', 'a', 'z')",
            "UPDATE t SET e = 'z'",
        ],
        on=MYSQL,
    ),
    Past(
        "the key becomes another",
        [
            T,
            ROWS,
            "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (y, id), MODIFY a VARCHAR(30)",
            "UPDATE t SET y = y + 1",
        ],
        on=MYSQL,
    ),
    Past(
        "unique keys in place of primary ones",
        [
            UNIQUE,
            "CREATE TABLE u (a VARCHAR(20) NOT NULL, b INT, UNIQUE (a(5)))",
            "INSERT INTO t VALUES (1, 2, 3)",
            "INSERT INTO u VALUES ('a', 2)",
        ],
    ),
    Past("renamed after it", [T, ROWS], later=["RENAME TABLE t TO u", "ALTER TABLE u ADD z INT"]),
    Past(
        "names change in a circle",
        [
            T,
            "CREATE TABLE u (k INT PRIMARY KEY, v INT)",
            ROWS,
            "INSERT INTO u VALUES (1, 2)",
            "RENAME TABLE t TO w, u TO t, w TO u",
            "INSERT INTO t VALUES (3, 4)",
            "UPDATE u SET a = 'z'",
        ],
    ),
    Past("gh-ost", [T, ROWS, *ghost(ADDED)]),
    Past("gh-ost drops a column", [T, ROWS, *ghost(REPLACED)], on=MYSQL),
    Past("pt-online-schema-change", [T, ROWS, *PT_OSC], on=MYSQL),
    Past(
        "made and dropped",
        [T, ROWS, "DROP TABLE t", "CREATE TABLE t (q INT PRIMARY KEY)", "INSERT INTO t VALUES (7)"],
        later=["DROP TABLE t"],
        on=MYSQL,
    ),
    Past(
        "another character set",
        [T, ROWS, "ALTER TABLE t CONVERT TO CHARACTER SET latin1", "UPDATE t SET a = 'ü'"],
        on=MYSQL,
    ),
    Past(
        "invisible, and a key that the server generated",
        [
            "SET SESSION sql_generate_invisible_primary_key = ON",
            "CREATE TABLE t (a INT, b INT INVISIBLE)",
            "INSERT INTO t (a, b) VALUES (1, 2)",
            "ALTER TABLE t ADD c INT FIRST",
            "UPDATE t SET a = 5",
        ],
        on=MYSQL,
    ),
    Past(
        "types that look like others",
        [
            ALIKE,
            ALIKE_ROW,
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS v UUID AFTER id, CHANGE b c BINARY(16)",
            "UPDATE t SET v = '00000000-0000-0000-0000-000000000001'",
        ],
        later=["ALTER TABLE t RENAME COLUMN u TO v2, ADD w INET6 FIRST"],
        on=["mariadb1011"],
    ),
    Past(
        "altered in two phases",
        [
            "SET SESSION binlog_alter_two_phase = ON",
            *(T, ROWS),
            "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a, ALGORITHM = COPY",
            "UPDATE t SET a = 'z'",
        ],
        on=["mariadb118"],
    ),
]


LATER = [
    ([T, ROWS], ["UPDATE t SET x = 7", *ghost(REPLACED)], []),
    ([T, ROWS], [*ghost(ADDED)], ["DROP TABLE t"]),
    ([T, ROWS], ["UPDATE t SET x = 7", *PT_OSC], []),
    ([T, ROWS], ["UPDATE t SET x = 7", "ALTER TABLE t DROP b, DROP x", "DELETE FROM t"], []),
    ([T, ROWS], ["UPDATE t SET x = 7"], ["DROP TABLE t"]),
    ([T, ROWS], ["UPDATE t SET x = 7"], ["ALTER TABLE t MODIFY y INT FIRST, DROP a"]),
    (
        [T.replace("x INT", "x ENUM('a', 'b')"), "INSERT INTO t VALUES (1, 'a', 'b', 'b', 5)"],
        ["UPDATE t SET x = 'a'", "ALTER TABLE t MODIFY x ENUM('b', 'a')", "DELETE FROM t"],
        [],
    ),
]


NAMED = r"the statement at binlog.0\d+:\d+ names the table"
IN_RANGE = rf"{NAMED}|not in the server's information_schema|columns in the log, \d there"
DOUBTS = [
    # After rows of a table that nothing has described before.
    ["DROP TABLE t"],
    ["DROP TABLE t", "CREATE TABLE t (a INT)"],
    ["RENAME TABLE t TO u", "DROP TABLE u"],
    PT_OSC,
    ["ALTER TABLE t RENAME COLUMN a TO c"],
]
