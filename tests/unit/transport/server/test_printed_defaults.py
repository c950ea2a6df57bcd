"""Defaults: what information_schema shows of them is read, or said to be unknown."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.schema import Default
from airflow_provider_binlog.sql.columns import Facts, SqlType
from airflow_provider_binlog.transport.server.information_schema import read_default
from airflow_provider_binlog.transport.server.queries import ServerVersion, parse_version
from tests.support.server_tables import server_facts

MYSQL, MARIADB = parse_version("9.7.0"), parse_version("11.8.6-MariaDB")
OLD_MARIADB = parse_version("10.1.48-MariaDB")


def column(data_type: str, *, nullable: bool = True, **others: Any) -> Facts:
    text = data_type in ("char", "varchar", "text", "enum", "set")
    values = ("p", "q,", "it's") if data_type in ("enum", "set") else None
    described = {"charset": "utf8mb4" if text else None, "values": values} | others
    return server_facts(data_type, nullable=nullable, **described)


def read(of: Facts, printed: str | None, extra: str, server: ServerVersion) -> Default | None:
    """Return the default of a column of the type that it says it has."""
    own = SqlType(
        of.data_type or "",
        of.precision,
        of.scale,
        of.fsp or 0,
        bool(of.unsigned),
        of.charset,
        of.values,
    )
    return read_default(own, of, printed, extra, server)


NUMBER: dict[str, Any] = {"precision": 6, "scale": 2}

# The type, what MySQL prints, what MariaDB prints, and what SELECT shows.
LITERALS = [
    (column("int"), "7", "7", "7"),
    (column("int", nullable=False), "-3", "-3", "-3"),
    (column("int", unsigned=True), "00007", "00007", "7"),
    (column("bigint", unsigned=True), "18446744073709551615", "18446744073709551615", None),
    (column("decimal", **NUMBER), "1.50", "1.50", "1.50"),
    (column("decimal", **NUMBER), "-0.5", "-0.5", "-0.50"),
    (column("decimal", **NUMBER), "0001.50", "0001.50", "1.50"),
    (column("decimal", **NUMBER), "-0.00", "-0.00", "0.00"),
    (column("decimal", precision=6, scale=0), "12", "12", "12"),
    (column("varchar"), "x", "'x'", "x"),
    (column("varchar"), "", "''", ""),
    (column("varchar"), "NULL", "'NULL'", "NULL"),
    (column("varchar"), "it's é ", "'it''s é '", "it's é "),
    (column("char"), "a  ", "'a  '", "a"),
    (column("text"), "current_timestamp()", "'current_timestamp()'", "current_timestamp()"),
    (column("enum"), "it's", "'it''s'", "it's"),
    (column("set"), "p", "'p'", "p"),
    (column("set"), "", "''", ""),
    (column("year"), "2024", "2024", "2024"),
    (column("date"), "2024-02-29", "'2024-02-29'", "2024-02-29"),
    (column("datetime", fsp=0), "2024-02-29 01:02:03", "'2024-02-29 01:02:03'", None),
    (column("datetime", fsp=3), "2024-02-29 01:02:03.5", "'2024-02-29 01:02:03.5'", None),
    (column("time", fsp=0), "-01:02:03", "'-01:02:03'", "-01:02:03"),
    (column("time", fsp=2), "100:00:00.00", "'100:00:00.00'", "100:00:00.00"),
]
SHOWN_AS = {
    "18446744073709551615": "18446744073709551615",
    "2024-02-29 01:02:03": "2024-02-29 01:02:03",
    "2024-02-29 01:02:03.5": "2024-02-29 01:02:03.500",
}


@pytest.mark.parametrize(("of", "mysql", "mariadb", "value"), LITERALS)
def test_literals(of: Facts, mysql: str, mariadb: str, value: str | None) -> None:
    expected = Default(value if value is not None else SHOWN_AS[mysql])

    assert read(of, mysql, "", MYSQL) == expected
    assert read(of, mysql, "INVISIBLE", MYSQL) == expected
    assert read(of, mariadb, "", MARIADB) == expected


@pytest.mark.parametrize("data_type", ["int", "varchar", "json", "timestamp", "bit", "blob"])
def test_null(data_type: str) -> None:
    nullable, other = column(data_type), column(data_type, nullable=False)

    assert read(nullable, None, "", MYSQL) == Default(None)
    assert read(nullable, "NULL", "", MARIADB) == Default(None)
    # Outside of strict mode an insert leaves 0 and '' there.
    assert read(other, None, "", MYSQL) is None
    assert read(other, None, "auto_increment", MARIADB) is None


@pytest.mark.parametrize(
    ("of", "mysql", "mariadb"),
    [
        (column("int"), "(1 + 1)", "(1 + 1)"),
        (column("tinyint"), "300", "300"),
        (column("int", unsigned=True), "-1", "-1"),
        (column("decimal", **NUMBER), "1.555", "1.555"),
        (column("decimal", **NUMBER), "12345.00", "12345.00"),
        (column("decimal"), "1", "1"),
        (column("varchar"), "a?", "'a?'"),  # it may have been an emoji
        (column("enum"), "?", "'?'"),
        (column("enum"), "z", "'z'"),
        (column("set"), "p,z", "'p,z'"),
        (column("date"), "0000-00-00", "'0000-00-00'"),
        (column("date"), "2024-02-00", "'2024-02-00'"),
        (column("datetime", fsp=0), "CURRENT_TIMESTAMP", "current_timestamp()"),
        (column("datetime", fsp=0), "2024-02-29 01:02:03.5", "'2024-02-29 01:02:03.5'"),
        (column("timestamp", fsp=0), "2024-02-29 01:02:03", "'2024-02-29 01:02:03'"),
        (column("year"), "0000", "0000"),
        (column("bit"), "b'101'", "b'101'"),
        (column("float"), "1.5", "1.5"),
        (column("varbinary", charset="binary"), "0x6162", "x'6162'"),
        (column("int", generated=True), "7", "NULL"),
    ],
)
def test_what_is_not_certain_is_unknown(of: Facts, mysql: str, mariadb: str) -> None:
    assert read(of, mysql, "", MYSQL) is None
    assert read(of, mariadb, "", MARIADB) is None


def test_what_one_family_prints_is_unknown() -> None:
    text, number = column("varchar"), column("int")

    assert read(number, "7", "DEFAULT_GENERATED", MYSQL) is None
    assert read(number, None, "DEFAULT_GENERATED", MYSQL) is None
    for printed in ("uuid()", "7", r"'a\nb'", r"'abc\'d'", "'a' || 'b'"):
        assert read(text, printed, "", MARIADB) is None
    assert read(text, "x", "", OLD_MARIADB) is None
    assert read(number, "7", "", OLD_MARIADB) is None


def test_mysql_prints_text_as_it_is() -> None:
    assert read(column("varchar"), "'\\\n'", "", MYSQL) == Default("'\\\n'")
