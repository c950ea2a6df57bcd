"""Statements by the grammar of MySQL and MariaDB, to be executed one by one on a server.

Source: MySQL 9.7 reference manual, 15.1; MariaDB documentation, Data Definition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

T = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), c DECIMAL(8,2), d DATETIME)"
ROW = "INSERT INTO t (id, a, b, c, d) VALUES (1, 5, 'x', 1.5, '2024-01-02 03:04:05')"

ANY, MYSQL, MARIADB, MARIADB118 = "", "mysql", "mariadb", "mariadb118"


@dataclass(frozen=True)
class Steps:
    """What happens to the tables `t`, `u` and `w`, in a session of its own.

    Attributes:
        statements: That are followed; of `ALTER TABLE t ...` only what follows `t`.
        tables, rows: That are there before.
        on: How the names of the servers begin that take the statements.
        rewritten: Columns whose values are other ones, as they are named afterwards; `*` for rows.
        unknown: New columns whose values in older rows the statements do not say.
    """

    statements: tuple[str, ...]
    tables: tuple[str, ...] = (T,)
    rows: tuple[str, ...] = (ROW,)
    on: str = ANY
    rewritten: frozenset[str] = frozenset()
    unknown: frozenset[str] = field(default_factory=frozenset)


def steps(*statements: str, **others: object) -> Steps:
    """Return steps; what is given as one string or as words is made a tuple, or a set."""
    given: dict[str, object] = {}
    for name, value in others.items():
        if name in ("rewritten", "unknown"):
            given[name] = frozenset(str(value).split())
        elif name in ("tables", "rows") and isinstance(value, str):
            given[name] = (value,)
        else:
            given[name] = value
    return Steps(statements, **given)  # type: ignore[arg-type]


def adding(definitions: list[str]) -> str:
    """Return the clauses that add a column of each definition: in it, `@` is its name."""
    named = (each.replace("@", f"c{number}") for number, each in enumerate(definitions))
    return ", ".join(f"ADD c{number} {each}" for number, each in enumerate(named))


_INTEGERS = [
    *("BOOL", "BOOLEAN", "INT1", "INT2", "INT3", "INT4", "INT8", "MIDDLEINT", "INTEGER"),
    *("INTEGER(5) UNSIGNED", "INT(5) ZEROFILL", "BIGINT SIGNED", "SMALLINT UNSIGNED ZEROFILL"),
    *("INT NULL", "INT NULL UNIQUE", "INT UNIQUE KEY NULL", "INT COMMENT 'NOT NULL, ADD z INT'"),
    *("INT NOT NULL DEFAULT 7 COMMENT 'x'", "INT INVISIBLE", "INT DEFAULT 3 INVISIBLE"),
    *("INT DEFAULT TRUE", "BIT", "BIT(64)", "YEAR", "YEAR(4)", "INT /*!50000 DEFAULT 4 */"),
]
_DECIMALS = [
    *("DEC", "DEC(5)", "DEC(5,2)", "NUMERIC(5,2) UNSIGNED", "FIXED(5,2)", "FIXED", "DECIMAL(0)"),
    *("DECIMAL(65,30)", "FLOAT", "FLOAT(7,3)", "FLOAT(24)", "FLOAT(25)", "FLOAT4", "FLOAT8"),
    *("DOUBLE PRECISION", "DOUBLE PRECISION(10,2)", "REAL", "REAL(5,2)", "FLOAT UNSIGNED"),
]
_STRINGS = [
    *("CHAR", "CHAR(0)", "CHARACTER(5)", "CHARACTER VARYING(5)", "CHAR VARYING(5)", "VARCHAR(0)"),
    *("VARCHARACTER(5)", "NCHAR", "NCHAR(5)", "NATIONAL CHAR(5)", "NATIONAL CHARACTER(5)"),
    *("NATIONAL VARCHAR(5)", "NATIONAL CHAR VARYING(5)", "NATIONAL CHARACTER VARYING(5)"),
    *("NVARCHAR(5)", "NCHAR VARCHAR(5)", "NCHAR VARYING(5)", "NATIONAL VARCHARACTER(5)"),
    *("LONG", "LONG VARCHAR", "LONG VARBINARY", "LONG CHAR VARYING", "LONG CHARACTER VARYING"),
    *("TEXT(10)", "TEXT(300)", "TEXT(70000)", "TINYTEXT", "BLOB(10)", "BLOB(300)", "BLOB(70000)"),
    *("BINARY", "BINARY(0)", "VARBINARY(0)", "CHAR(5) BYTE", "TEXT BYTE", "CHAR BYTE"),
    *("CHAR(5) ASCII", "TEXT UNICODE", "VARCHAR(5) BINARY", "VARCHAR(5) BINARY ASCII"),
    *("VARCHAR(5) UNICODE BINARY", "VARCHAR(5) BINARY CHARACTER SET latin1"),
    *("VARCHAR(5) CHAR SET latin1", "VARCHAR(5) CHARACTER SET binary", "VARCHAR(5) COLLATE binary"),
    *("VARCHAR(5) NOT NULL COLLATE latin1_bin", "VARCHAR(5) CHARACTER SET 'latin1'"),
    *('VARCHAR(5) CHARACTER SET "latin1"', "VARCHAR(5) COLLATE `latin1_bin`", "JSON"),
    *("ENUM('a','b') CHARACTER SET binary", "SET('a','b') BYTE", "ENUM('a','b') ASCII"),
    *("ENUM('a','it''s','c,d')", "ENUM('a ','b  ')", "ENUM(x'61','b')", 'ENUM("x","y")'),
    *("SET('a','b') DEFAULT 'a'", "ENUM('a','b') BINARY", "VARCHAR(9) DEFAULT 'a'"),
]
_OTHERS = [
    *("DATE", "TIME(3)", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(3) NULL", "GEOMETRY", "POINT"),
    *("GEOMETRYCOLLECTION", "MULTIPOLYGON", "VARCHAR(5) CHECK (@ > 0)", "INT CHECK (@ > 0)"),
]
_UNKNOWN = [
    *("INT AS (a + 1)", "INT GENERATED ALWAYS AS (a + 1) VIRTUAL COMMENT 'x'", "INT DEFAULT (a)"),
    *("INT AS (a + 1) STORED", "VARCHAR(50) AS (CONCAT(b, ',', a)) STORED", "DOUBLE DEFAULT 1e2"),
    *("DATETIME DEFAULT CURRENT_TIMESTAMP", "DATETIME(3) DEFAULT NOW(3) ON UPDATE NOW(3)"),
    *("TIMESTAMP NOT NULL DEFAULT NOW() ON UPDATE NOW()", "INT NOT NULL AUTO_INCREMENT UNIQUE"),
]
_NUMBERED = " ".join(f"c{number}" for number in range(len(_UNKNOWN)))
_MYSQL_ONLY = [
    *(
        "POINT SRID 4326",
        "VECTOR",
        "VECTOR(3)",
        "INT NOT NULL VISIBLE",
        "INT COLUMN_FORMAT DYNAMIC",
    ),
    *("INT COLUMN_FORMAT FIXED DEFAULT 3", "INT STORAGE DISK DEFAULT 3", "GEOMCOLLECTION"),
    *("INT SECONDARY_ENGINE_ATTRIBUTE='{}' DEFAULT 3", "INT CHECK (@ > 0) NOT ENFORCED"),
    *("TEXT DEFAULT ('x')", "VARCHAR(9) COLLATE utf8mb4_0900_as_ci", "INT NOT SECONDARY DEFAULT 3"),
]
_MARIADB_ONLY = [
    *("UUID", "INET4", "INET6", "VARCHAR(20) COMPRESSED", "TEXT COMPRESSED=zlib"),
    *("VARCHAR(20) COMPRESSED NOT NULL DEFAULT 'x'", "BLOB COMPRESSED", "POINT REF_SYSTEM_ID=4326"),
    *("TEXT DEFAULT 'x'", "TEXT UNIQUE", "VARCHAR(5000) UNIQUE", "LONGTEXT COLLATE utf8mb4_bin"),
    *(
        "VARCHAR(5) COLLATE uca1400_ai_ci",
        "VARCHAR(5) COLLATE DEFAULT",
        "JSON CHECK (JSON_VALID(@))",
    ),
    "VARCHAR(5) CHARACTER SET latin1 COLLATE DEFAULT",
]

POSITIONS = [
    steps(
        "ADD e INT AFTER a, ADD f INT AFTER e, ADD g INT FIRST",
        "ADD COLUMN (h INT DEFAULT 3, UNIQUE KEY k (h))",
        "DROP a, ADD a VARCHAR(10) FIRST",
        "CHANGE b i VARCHAR(20) AFTER d, ADD b INT AFTER c",
        "DROP e, ADD j INT AFTER f, MODIFY c DECIMAL(9,2) FIRST",
        "ADD m INT, MODIFY f BIGINT AFTER m, DROP g",
        "alter table t add column n int after C",
    ),
    steps(
        "MODIFY a INT AFTER b, MODIFY b VARCHAR(20) AFTER c, MODIFY c DECIMAL(8,2) FIRST",
        "MODIFY d DATETIME FIRST, MODIFY c DECIMAL(8,2) FIRST, MODIFY b VARCHAR(20) AFTER id",
        "CHANGE a e INT FIRST, CHANGE d a DATETIME AFTER e, ADD d INT AFTER a",
        "MODIFY id INT NOT NULL AFTER d",
    ),
    steps(
        "ADD `ΟΔΟΣ` INT DEFAULT 4, ADD `ΣΑΣ` INT DEFAULT 5",
        "MODIFY `οδοσ` BIGINT, CHANGE `σασ` `ΣΑσ` BIGINT, ADD `ß` INT DEFAULT 6, ADD ss INT",
        "DROP `οδοσ`, DROP `ß`",
    ),
    steps("ADD `İx` INT DEFAULT 5", "CHANGE `ix` y BIGINT", on=MYSQL),
    steps(
        "RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "CHANGE a b VARCHAR(20) AFTER d, CHANGE b a INT FIRST",
        "RENAME COLUMN a TO e, ADD a INT DEFAULT 9",
        "CHANGE e E INT",
        "CHANGE E e BIGINT, RENAME COLUMN C TO c2",
        "RENAME COLUMN c2 TO `select`, RENAME COLUMN d TO `x y`, RENAME COLUMN b TO `q``r`",
        "RENAME COLUMN `select` TO d, MODIFY COLUMN `X Y` DATETIME(3) AFTER `ID`",
    ),
    steps(
        "ADD ss INT DEFAULT 1, ADD `ß` INT DEFAULT 2, ADD `é` INT",
        "DROP `ß`, RENAME COLUMN `É` TO f",
        "ADD 1e INT, ADD $x INT, ADD _y INT, ADD `, DROP a` INT, ADD first INT, ADD after INT",
        "MODIFY first BIGINT AFTER after, ADD z INT FIRST",
    ),
]
KEYS = [
    steps("DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)", "ADD e INT NOT NULL DEFAULT 1 FIRST"),
    steps("DROP PRIMARY KEY, CHANGE id e INT, ADD CONSTRAINT f PRIMARY KEY USING BTREE (e DESC)"),
    steps("DROP PRIMARY KEY, ADD e INT NOT NULL DEFAULT 1, ADD PRIMARY KEY (b(5), id, e)"),
    steps("DROP CONSTRAINT `primary`", "ADD e INT"),
    steps("DROP INDEX `PRIMARY` ON t", "CREATE INDEX k ON t (a)", "DROP INDEX k ON t"),
    steps(
        "ADD UNIQUE (a), ADD CONSTRAINT UNIQUE INDEX k USING BTREE (a, b(3))",
        "ADD KEY l (a DESC, b(4)) COMMENT 'x, ADD z INT', ADD FULLTEXT (b), ADD e INT",
        "RENAME INDEX k TO m, DROP KEY l, DROP INDEX a, ADD f INT",
        "ADD CHECK (a > 0), ADD CONSTRAINT CHECK (b <> 'ADD'), DROP c",
        "CREATE UNIQUE INDEX n USING BTREE ON t (a) COMMENT 'x'",
    ),
]
OPTIONS = [
    steps(
        "FORCE, ADD e INT",
        "ENGINE InnoDB, ROW_FORMAT=DYNAMIC, ADD f INT FIRST",
        "ADD g INT, ALGORITHM=COPY, LOCK=SHARED",
        "ADD h INT, ALGORITHM INSTANT",
        "ALGORITHM=DEFAULT, ADD i INT FIRST, LOCK DEFAULT",
        "ADD j INT",
        "AUTO_INCREMENT=100, AVG_ROW_LENGTH=5, CHECKSUM=0, DELAY_KEY_WRITE=1, MAX_ROWS=5,"
        " MIN_ROWS 1, PACK_KEYS=DEFAULT, STATS_PERSISTENT=1, STATS_AUTO_RECALC=DEFAULT, DROP i",
        "COMMENT 'x, DROP a' AUTO_INCREMENT 100 ENGINE InnoDB",
        "DISABLE KEYS, ADD k INT, INSERT_METHOD=NO, KEY_BLOCK_SIZE=0",
        "ALTER a SET DEFAULT 7, ALTER b DROP DEFAULT, ALTER COLUMN c SET DEFAULT (1 + 2)",
        "DEFAULT CHARSET = latin1, ADD m VARCHAR(5) CHARACTER SET utf8mb4",
        "ENGINE='MyISAM', ADD n INT",
    ),
    steps(
        "ALTER INDEX k INVISIBLE, ADD e INT",
        "ALTER a SET INVISIBLE, ALTER COLUMN c SET VISIBLE, RENAME COLUMN b TO f",
        "ENCRYPTION='N', AUTOEXTEND_SIZE=4M, COMPRESSION='none', SECONDARY_ENGINE=rapid",
        "WITHOUT VALIDATION, ADD g INT FIRST",
        "ADD UNIQUE m ((a + 1)), DROP c, ADD INDEX ((LOWER(f)))",
        "RENAME TABLES t TO u",
        tables=T.replace("d DATETIME", "d DATETIME, KEY k (a)"),
        on=MYSQL,
    ),
    steps(
        "SET STATEMENT lock_wait_timeout = 5 FOR ALTER ONLINE TABLE IF EXISTS t WAIT 5 ADD e INT",
        "ALTER TABLE t NOWAIT ADD f INT DEFAULT 5",
        "ADD COLUMN IF NOT EXISTS a BIGINT, ADD COLUMN IF NOT EXISTS (g INT, a INT)",
        "DROP COLUMN IF EXISTS zz, DROP IF EXISTS c CASCADE",
        "MODIFY IF EXISTS zz INT, CHANGE IF EXISTS a h BIGINT FIRST",
        "RENAME COLUMN IF EXISTS zz TO yy, RENAME COLUMN IF EXISTS h TO i",
        "ALTER COLUMN IF EXISTS zz SET DEFAULT 5, ALTER COLUMN IF EXISTS i SET DEFAULT 6",
        "ADD INDEX IF NOT EXISTS k (i), ADD UNIQUE IF NOT EXISTS l (i), DROP INDEX IF EXISTS zz",
        "`PAGE_COMPRESSED`='0', ADD j INT, TRANSACTIONAL=0, PAGE_CHECKSUM=1, ENCRYPTED=NO",
        "ALGORITHM=NOCOPY, DROP b",
        "ENGINE=Aria",
        "RENAME TABLE IF EXISTS t WAIT 5 TO u, u NOWAIT TO w",
        on=MARIADB,
    ),
]
TEXTS = [
    steps(
        "ALTER TABLE t /*!50100 ADD e INT, */ DROP a",
        "ADD f INT /*!99999 , ADD f2 INT */ /*!999999 , ADD f3 INT */ /*!50700 , ADD f4 INT */",
        "ADD g INT /*!80000 NOT NULL DEFAULT 5 */ /* , ADD g2 INT */ /*! , ADD g3 INT */",
        "ADD h INT /*M! , ADD h2 INT */ /*M!100100 , ADD h3 INT */ /*M!999999 , ADD h4 INT */",
        "ALTER TABLE t -- , DROP b\n ADD i INT # , DROP c\n",
        "/* x */ ALTER /* y */ TABLE\tt ADD/**/j/**/INT;",
        r"ADD k VARCHAR(30) DEFAULT 'it\'s, DROP b', ADD l VARCHAR(9) DEFAULT '\\', ADD m INT",
        "SET sql_mode = 'ANSI_QUOTES'",
        'ALTER TABLE "t" RENAME COLUMN "b" TO "q""r", ADD "x, y" VARCHAR(9) DEFAULT \'"\'',
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        r"ADD n VARCHAR(9) DEFAULT 'a\', ADD o VARCHAR(20) DEFAULT ', DROP c', ADD p ENUM('x\')",
        "SET sql_mode = 'ANSI'",
        'ALTER TABLE "t" ADD "e2" REAL, ADD e3 REAL(5,2)',
        "SET sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,PIPES_AS_CONCAT'",
        "ADD q DATE, ADD r VARCHAR(40), ADD CHECK (r <> d || 'x')",
        "SET sql_mode = ''",
        "ADD s INT NOT NULL, ADD s2 VARCHAR(5) NOT NULL, ADD s3 VARCHAR(20000), DROP c",
        "SET NAMES latin1",
        "ADD x ENUM('a','b') CHARACTER SET utf8mb4, ADD y VARCHAR(9) DEFAULT 'abc'",
    ),
    steps("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, ADD e TEXT"),
    steps("CONVERT TO CHARSET latin1, ADD e TEXT CHARACTER SET utf8mb4", rewritten="b"),
    steps("CONVERT TO CHARACTER SET utf8, ADD e INT", tables=f"{T} CHARSET latin1", on=MYSQL),
]
TYPES = [
    steps(adding(_INTEGERS + _DECIMALS + _OTHERS)),
    steps(adding(_STRINGS)),
    steps(adding(_UNKNOWN), unknown=_NUMBERED),
    steps(adding(_MYSQL_ONLY), on=MYSQL),
    steps(adding(_MARIADB_ONLY), on=MARIADB),
    steps("ADD c VECTOR(3), DROP a", tables="CREATE TABLE t (id INT, a INT)",
          rows="INSERT INTO t VALUES (1, 2)", on=MARIADB118),
    steps(
        "SET sql_mode = 'ORACLE'",
        "ADD e VARCHAR2(10), ADD f NUMBER(5), ADD g DATE, ADD h CLOB, ADD i RAW(5)",
        on=MARIADB,
    ),
]  # fmt: skip
OTHERS = [
    steps(
        "CREATE TABLE u LIKE t",
        "ALTER TABLE u ADD e INT FIRST",
        "CREATE TABLE IF NOT EXISTS u (z INT)",
        "RENAME TABLE t TO w, u TO t, w TO u",
        "ALTER TABLE u RENAME AS w, DROP a, ADD f INT FIRST",
    ),
    steps(
        "CREATE TABLE u (e INT, id BIGINT) SELECT id, a FROM t",
        "CREATE TABLE w (PRIMARY KEY (id)) AS SELECT id, b FROM t",
        "ALTER TABLE w RENAME COLUMN b TO c, ADD d INT FIRST",
    ),
    steps(
        "CREATE TEMPORARY TABLE t (x INT)",
        "ALTER TABLE t ADD y INT",
        "DROP TABLE t",
        "ALTER TABLE t ADD e INT",
    ),
    steps(
        "SET SESSION binlog_format = STATEMENT",
        "CREATE TEMPORARY TABLE t (x INT, a INT)",
        "DROP a",
        "TRUNCATE t",
        "ALTER TABLE t ADD INDEX (x), RENAME TO u",
        "DROP TABLE u",
        "ADD e INT",
        # They say that a temporary table was used, and not that it is the one of this name.
        rewritten="*",
    ),
    steps(
        "CREATE TABLE u (id SERIAL, a INT, CHECK (a > 0), INDEX (a), CONSTRAINT PRIMARY KEY (id))",
        "ALTER TABLE u ADD e INT FIRST",
        "CREATE TABLE w (`key` INT, first INT, after INT, date DATE, bit BIT, id INT KEY)"
        " CHARSET=latin1 PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))",
        "ALTER TABLE w MODIFY bit BIT FIRST, RENAME COLUMN `key` TO k",
        tables=(), rows=(),
    ),
    steps(
        "ADD PARTITION (PARTITION r VALUES LESS THAN MAXVALUE)",
        "REORGANIZE PARTITION p, q INTO (PARTITION p VALUES LESS THAN (20))",
        "REBUILD PARTITION p, r",
        "ADD e INT, DROP a REMOVE PARTITIONING",
        "ADD f INT FIRST PARTITION BY KEY () PARTITIONS 2",
        "COALESCE PARTITION 1",
        tables=f"{T} PARTITION BY RANGE (id)"
        " (PARTITION p VALUES LESS THAN (10), PARTITION q VALUES LESS THAN (20))",
    ),
    steps(
        "ADD e INT FIRST",
        "ALTER COLUMN my_row_id SET VISIBLE, ADD f INT",
        tables=(
            "SET sql_generate_invisible_primary_key = ON",
            "CREATE TABLE t (a INT, b VARCHAR(5))",
        ),
        rows="INSERT INTO t VALUES (1, 'x')",
        on=MYSQL,
        rewritten="*",
    ),
    steps("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, z TEXT)", on=MARIADB),
]  # fmt: skip


def _rewriting(column: str, statement: str, *, value: str = "NULL", rewritten: str = "a") -> Steps:
    table = f"CREATE TABLE t (id INT PRIMARY KEY, {column})"
    return steps(
        statement, tables=table, rows=f"INSERT INTO t VALUES (1, {value})", rewritten=rewritten
    )


REWRITING = [
    _rewriting("a BINARY(4)", "MODIFY a BINARY(8)", value="'a'"),
    _rewriting("a BIT(8)", "MODIFY a BIT(16)", value="1"),
    _rewriting("a DECIMAL(65,30)", "MODIFY a DECIMAL(60,20)", value="1.5"),
    _rewriting("a DATETIME(6)", "MODIFY a DATETIME", value="'2024-01-01 00:00:00.6'"),
    _rewriting("a INT AS (id + 1) STORED", "MODIFY a INT AS (id + 2) STORED", value="DEFAULT"),
    _rewriting("a SET('x','y')", "MODIFY a SET('y','x')", value="'x'"),
    _rewriting("a INT", "ENGINE=MyISAM, DROP PRIMARY KEY, MODIFY a INT AUTO_INCREMENT PRIMARY KEY"),
    _rewriting("a INT", "MODIFY id BIGINT, MODIFY a BIGINT AFTER id", rewritten=""),
    _rewriting("a ENUM('x','y')", "MODIFY a ENUM('y','x','z')", value="'x'", rewritten=""),
    _rewriting("a VARCHAR(9)", "MODIFY a VARCHAR(90) AFTER id", value="'x'", rewritten=""),
    steps("ADD j INT, ORDER BY a, b DESC, c ASC", rewritten="*"),
    steps("ALTER IGNORE TABLE t ADD m INT FIRST", on=MARIADB, rewritten="*"),
    steps("ALTER IGNORE TABLE t MODIFY a BIGINT NOT NULL", on=MARIADB, rewritten="*"),
    steps("DROP PERIOD FOR p", "DROP id", on=MARIADB, rewritten="*",
          tables="CREATE TABLE t (id INT, s DATE, e DATE, a INT, PERIOD FOR p (s, e))",
          rows="INSERT INTO t VALUES (1, '2024-01-01', '2024-02-01', 5)"),
    steps("ADD PRIMARY KEY (id, p WITHOUT OVERLAPS)", on=MARIADB, rewritten="*",
          tables="CREATE TABLE t (id INT, s DATE, e DATE, a INT, PERIOD FOR p (s, e))",
          rows="INSERT INTO t VALUES (1, '2024-01-01', '2024-02-01', 5)"),
    steps("ALTER SEQUENCE t INCREMENT BY 7", on=MARIADB, rewritten="*",
          tables="CREATE SEQUENCE t", rows="SELECT NEXTVAL(t)"),
]  # fmt: skip

ALL = [*POSITIONS, *KEYS, *OPTIONS, *TEXTS, *TYPES, *OTHERS, *REWRITING]
