"""Protected columns: which ones rules name, under which names, and what is hashed."""

from __future__ import annotations

import hmac
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.protected_columns import (
    ColumnRules,
    HashSecret,
    find_misspelled,
    find_secret,
)
from airflow_provider_binlog.schema import NULL, Default, Field, Schema
from airflow_provider_binlog.table_options import ColumnOptions

SECRET = HashSecret("pepper")
T = ("shop", "customers")
RULES = ColumnRules(
    (
        ColumnOptions("shop.customers", exclude=("password", "both"), hash=("Email", "both")),
        ColumnOptions("*.log_*", exclude=("ip",)),
    ),
    SECRET,
)


def field(number: int, name: str, mysql_type: str = "varchar(9)", **rest: object) -> Field:
    return Field(number, name, mysql_type, "string", nullable=True, **rest)  # type: ignore[arg-type]


def origins(fields: tuple[Field, ...]) -> list[tuple[str, str | None, bool]]:
    """Return name, name in the options, and whether it is excluded, of each field."""
    return [(own.name, own.origin and own.origin[2], own.excluded) for own in fields]


@given(st.text(min_size=1, max_size=150), st.lists(st.binary(max_size=200), max_size=4))
def test_hashes_are_those_of_hmac(secret: str, values: list[bytes]) -> None:
    expected = [hmac.new(secret.encode(), value, "sha256").hexdigest() for value in values]

    assert HashSecret(secret).digests(values) == expected
    assert repr(HashSecret(secret)) == "HashSecret()"
    assert HashSecret(secret).id != HashSecret(secret + "x").id


def test_what_hashes_has_a_secret() -> None:
    options = (ColumnOptions("shop.customers", hash=("email",)),)
    with pytest.raises(ConfigurationError, match=r"hash_secret.*tables=shop.customers"):
        ColumnRules(options, find_secret(""))


def test_names_are_found_in_any_lettercase_and_exclusion_comes_first() -> None:
    shown = [field(1, "id"), field(2, "PASSWORD"), field(3, "email"), field(4, "Both")]

    assert origins(RULES.protect(T, shown, ())) == [
        ("id", None, False),
        ("PASSWORD", "PASSWORD", True),
        ("email", "email", False),
        ("Both", "Both", True),
    ]
    assert RULES.protect(("shop", "orders"), shown, ()) == tuple(shown)
    assert RULES.excluded_names(("crm", "log_7")) == {"ip"}


@pytest.mark.parametrize("name", ["_customers_gho", "_customers_del", "__customers_new"])
def test_a_working_table_has_the_columns_of_its_table(name: str) -> None:
    assert RULES.concern(("shop", name))
    assert not RULES.concern(("crm", name))


def test_a_field_is_protected_as_long_as_the_options_name_its_origin() -> None:
    known = RULES.protect(T, [field(1, "password"), field(2, "email"), field(3, "id")], ())
    renamed = [replace(known[0], name="pw"), replace(known[1], name="mail"), known[2]]
    shown = [field(1, "pw"), field(2, "mail"), field(3, "id")]

    # Also of a table that has another name by now.
    found = RULES.protect(("shop", "clients"), shown, renamed)

    assert origins(found) == [
        ("pw", "password", True),
        ("mail", "email", False),
        ("id", None, False),
    ]
    assert RULES.excluded_names(("shop", "clients"), renamed) == {"pw"}
    others = ColumnRules((ColumnOptions("shop.customers", exclude=("email",)),))
    assert origins(others.protect(T, shown, renamed)) == [
        ("pw", None, False),
        ("mail", "email", True),
        ("id", None, False),
    ]


def test_what_may_be_a_protected_column_under_another_name_is_refused() -> None:
    known = RULES.protect(T, [field(1, "id"), field(2, "password")], ())

    with pytest.raises(ConfigurationError, match=r"may be the same.*column=password, new=pw"):
        RULES.protect(T, [field(1, "id"), field(2, "pw")], known)
    # It was dropped, and nothing is new; or the new one is protected, too.
    assert len(RULES.protect(T, [field(1, "id")], known)) == 1
    assert len(RULES.protect(T, [field(1, "id"), field(2, "both")], known)) == 2
    with pytest.raises(ConfigurationError, match="all columns of a table are excluded"):
        RULES.protect(T, [field(1, "both"), field(2, "password")], ())


def test_a_protected_field_has_no_value_of_its_column() -> None:
    shown = [
        field(1, "password", "enum('a','b')", write_default=Default("a")),
        field(2, "email", "enum('a','b')", write_default=Default("a")),
        field(3, "both", write_default=NULL, initial_default=Default("x")),
    ]
    excluded, hashed, both = RULES.protect(T, shown, ())

    assert (excluded.mysql_type, excluded.write_default) == ("enum", None)
    assert (hashed.mysql_type, hashed.write_default) == ("enum", Default(*SECRET.digests([b"a"])))
    assert (both.write_default, both.initial_default) == (None, None)


@pytest.mark.parametrize(
    ("mysql_type", "printed", "hashed"),
    [
        ("decimal(12,4)", "1.5000", "1.5"),
        ("decimal(12,4)", "-0.0000", "0"),
        ("int", "100", "100"),
        ("double", "1e3", "1000"),
        ("datetime(6)", "2026-01-02 03:04:05.500000", "2026-01-02 03:04:05.5"),
        ("time(3)", "00:00:00.000", "00:00:00"),
        ("bit(20)", "011170", "70000"),
        ("varchar(9)", "1.500", "1.500"),
        ("varbinary(4)", "00ff", b"\0\xff"),
    ],
)
def test_defaults_are_hashed_as_values_are(
    mysql_type: str, printed: str, hashed: str | bytes
) -> None:
    shown = field(1, "email", mysql_type, write_default=Default(printed))
    (found,) = RULES.protect(T, [shown, field(2, "id")], ())[:1]

    value = hashed.encode() if isinstance(hashed, str) else hashed
    assert found.write_default == Default(*SECRET.digests([value]))


def test_a_schema_is_staged_without_excluded_fields_and_read_back_whole() -> None:
    fields = [field(4, "both"), field(1, "id"), field(2, "password"), field(3, "email")]
    schema = Schema(1, RULES.protect(T, fields, ()), (1,))

    assert [own.name for own in schema.staged.fields] == ["id", "email"]
    assert [(own.index, own.field.name) for own in schema.staged.excluded] == [
        (0, "both"),
        (2, "password"),
    ]
    assert schema.staged.whole == schema
    assert schema.staged.staged == schema.staged
    assert replace(schema, key=(2,)).staged.key == ()


def test_columns_that_a_table_does_not_have_are_reported() -> None:
    renamed = replace(field(1, "pw"), origin=(*T, "password"))
    assert find_misspelled(RULES.options, T, [renamed, field(2, "EMAIL")]) == ["both"]
    # A glob names columns that other tables have.
    assert find_misspelled(RULES.options, ("crm", "log_7"), [field(1, "id")]) == []
