"""The tables whose logs are measured: their columns, and a row of each as a SELECT over `n`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BenchTable:
    """A table that is filled in bulk.

    Attributes:
        title: What its rows show.
        columns: Name and type of each.
        values: An expression over `n`, the number of the row, for each.
        rows: How many.
    """

    title: str
    columns: tuple[tuple[str, str], ...]
    values: tuple[str, ...]
    rows: int

    @classmethod
    def of(cls, title: str, rows: int, *columns: tuple[str, str]) -> BenchTable:
        """Return a table of columns given as type and expression, after a key."""
        named = [(f"c{number}", each) for number, (each, _) in enumerate(columns)]
        values = [value for _, value in columns]
        return cls(title, (("id", "bigint PRIMARY KEY"), *named), ("n", *values), rows)

    def create(self, name: str) -> str:
        """Return the statement that creates it."""
        columns = ", ".join(f"{column} {definition}" for column, definition in self.columns)
        return f"CREATE TABLE bench.{name} ({columns})"

    def insert(self, name: str, first: int, count: int) -> str:
        """Return the statement that inserts rows `first` and on."""
        return (
            f"INSERT INTO bench.{name} WITH RECURSIVE numbers (n) AS (SELECT {first} "
            f"UNION ALL SELECT n + 1 FROM numbers WHERE n < {first + count - 1}) "
            f"SELECT {', '.join(self.values)} FROM numbers"
        )


ORDERS = BenchTable(
    "bulk",
    (
        ("id", "bigint unsigned NOT NULL PRIMARY KEY"),
        ("quantity", "int"),
        ("name", "varchar(40)"),
        ("mail", "varchar(100)"),
        ("amount", "decimal(12,2)"),
        ("level", "tinyint"),
        ("changed", "datetime(6)"),
        ("seen", "timestamp(3) NULL"),
        ("note", "text"),
        ("score", "double"),
        ("state", "enum('new','paid','sent')"),
    ),
    (
        "n",
        "CRC32(n) DIV 3",
        "CONCAT('customer ', n)",
        "CONCAT('customer.', n, '@example.com', REPEAT('x', n % 20))",
        "CRC32(n * 7) DIV 100 / 100",
        "n % 100",
        "'2024-01-01' + INTERVAL n * 1000003 MICROSECOND",
        "FROM_UNIXTIME(1700000000 + n % 10000000)",
        "IF(n % 4 = 0, NULL, REPEAT('a note ', n % 4))",
        "CRC32(n * 13) / 1000",
        "1 + n % 3",
    ),
    1_000_000,
)

_DOCUMENT = """JSON_OBJECT('id', n * 100, 'name', CONCAT('customer ', n), 'email',
    CONCAT('c', n, '@example.com'), 'note', IF(n % 10 = 0, 'says "hi"', 'plain text note'),
    'price', CAST(CRC32(n) / 1000 AS DOUBLE), 'quantity', n % 100000, 'active', n % 2 = 0,
    'address', JSON_OBJECT('street', CONCAT('Main St ', n % 100), 'zip', 10000 + n % 90000),
    'tags', JSON_ARRAY(1, 2, 'x'), 'extra', IF(n % 3 = 0, 'text', NULL))"""

MIXED_COLUMNS = """id bigint unsigned NOT NULL PRIMARY KEY, quantity int, name varchar(40),
    mail varchar(100), amount decimal(12,2), changed datetime(6), seen timestamp(3) NULL,
    state enum('new','paid','sent'), extra json, note text"""
MIXED_ROW = """CRC32({n}) DIV 3, CONCAT('customer ', {n}), CONCAT('c', {n}, '@example.com'),
    CRC32({n} * 7) DIV 100 / 100, '2024-01-01' + INTERVAL {n} * 1000003 MICROSECOND,
    FROM_UNIXTIME(1700000000 + {n} % 10000000), 1 + {n} % 3,
    JSON_OBJECT('id', {n}, 'tags', JSON_ARRAY(1, 'x', {n} % 7), 'name', CONCAT('n', {n}),
        'price', CAST({n} / 4 AS DOUBLE)), IF({n} % 4 = 0, NULL, REPEAT('a note ', {n} % 4))"""
MANY_COLUMNS = "id int NOT NULL PRIMARY KEY, quantity int, name varchar(40), amount decimal(12,2)"
MANY_ROW = "CRC32({n}) DIV 3, CONCAT('customer ', {n}), CRC32({n} * 7) DIV 100 / 100"

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "int unsigned", "bigint unsigned")
_MEMBERS = ",".join(f"'m{number}'" for number in range(12))
_WORDS = "'客户订单', n % 1000, '已付款', REPEAT('数', n % 5)"


def _of_width(columns: int, rows: int) -> BenchTable:
    """Return a table of so many columns besides its key: numbers, text and times in turns."""
    return BenchTable.of(
        f"{columns} columns",
        rows,
        *(
            each
            for at in range(columns // 4)
            for each in (
                ("int", f"n + {at}"),
                ("varchar(20)", f"CONCAT('v', n % {50 + at})"),
                ("decimal(12,2)", f"n % 1000 + {at}"),
                ("datetime", "'2000-01-01' + INTERVAL n SECOND"),
            )
        ),
    )


TYPES = {
    "integers": BenchTable.of(
        "integers",
        500_000,
        *((kind, f"CRC32(n * {7 + at}) % 127") for at, kind in enumerate(_INTEGERS)),
        ("int", "CRC32(n)  DIV 3"),
        ("bigint", "n * 1000003"),
    ),
    "decimals": BenchTable.of(
        "DECIMAL",
        500_000,
        *(
            (f"decimal({digits},{scale})", f"CRC32(n * 7) / 100 % {10 ** min(6, digits - scale)}")
            for digits, scale in ((5, 2), (9, 0), (12, 2), (18, 6), (18, 2), (20, 4), (30, 10))
        ),
        ("decimal(38,10)", "-CRC32(n) * 1000003.25"),
    ),
    "temporals": BenchTable.of(
        "temporals",
        500_000,
        ("date", "'1990-01-01' + INTERVAL n % 20000 DAY"),
        ("time", "SEC_TO_TIME(n % 80000)"),
        ("time(6)", "SEC_TO_TIME(n % 80000 + 0.25)"),
        ("datetime", "'2000-01-01' + INTERVAL n SECOND"),
        ("datetime(3)", "'2000-01-01' + INTERVAL n * 1000 MICROSECOND"),
        ("datetime(6)", "'2000-01-01' + INTERVAL n * 1000003 MICROSECOND"),
        ("timestamp NULL", "FROM_UNIXTIME(1700000000 + n)"),
        ("timestamp(6) NULL", "FROM_UNIXTIME(1700000000 + n + 0.000007)"),
        ("year", "1980 + n % 100"),
    ),
    "enums": BenchTable.of(
        "ENUM and SET",
        500_000,
        *((f"enum({_MEMBERS})", f"1 + n % {7 + at}") for at in range(5)),
        *((f"set({_MEMBERS})", f"CRC32(n) % {64 << at}") for at in range(4)),
    ),
    "charsets": BenchTable.of(
        "multi-byte character sets",
        300_000,
        *(
            (f"varchar(60) CHARACTER SET {name}", f"CONCAT({_WORDS})")
            for name in ("utf8mb4", "gbk", "gb18030", "utf16", "utf8mb3")
        ),
        ("varchar(60) CHARACTER SET sjis", "CONCAT('注文', n)"),
        ("varchar(60) CHARACTER SET ujis", "CONCAT('注文', n)"),
        ("varchar(60) CHARACTER SET latin1", "CONCAT('Größe ', n)"),
    ),
    "long": BenchTable.of(
        "VARCHAR beyond 255 bytes",
        100_000,
        *(
            ("varchar(1000)", f"CONCAT(n, REPEAT('long text ', 26 + (n + {at}) % 20))")
            for at in range(4)
        ),
    ),
    "wide": _of_width(200, 30_000),
    "nulls": BenchTable.of(
        "mostly NULL",
        200_000,
        *(
            each
            for at in range(10)
            for each in (
                ("int", f"IF(n % {11 + at} = 0, n, NULL)"),
                ("varchar(40)", f"IF(n % {13 + at} = 0, CONCAT('v', n), NULL)"),
                ("datetime", f"IF(n % {17 + at} = 0, '2020-01-01', NULL)"),
            )
        ),
    ),
    "json": BenchTable.of("JSON, 10 keys", 1_000_000, ("json", _DOCUMENT)),
}

_NARROW = (
    ("int", "CRC32(n) DIV 3"),
    ("varchar(40)", "CONCAT('customer ', n)"),
    ("decimal(12,2)", "CRC32(n * 7) DIV 100 / 100"),
)
GROWTH = {
    **{f"rows{rows}": BenchTable.of("growth", rows, *_NARROW) for rows in (10**5, 10**6, 10**7)},
    "width8": _of_width(8, 750_000),
    "width40": _of_width(40, 150_000),
}
"""Logs of growing size, beside those of many tables and `wide`."""
