"""SQL of the Spark targets, which calls source columns by their number: `c0`, `c1`, ...

On that side `path`, `from` or a name with a dot could be taken for something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.spark.names import quote_text
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.staged.types import Value
from airflow_provider_binlog.spark.target.protocol import (
    COPIES,
    DELETED,
    LACKS,
    held,
    source_column,
)

CHANGES = "binlog_changes"
"""The view the source rows are read from; each session has its own."""

COLLAPSED = "binlog_collapsed"
"""The view of counted or versioned source rows, from which those in `CHANGES` are computed."""

REMOVES, SHORT = "removes", "short"

ORPHAN = "a change of a row that the target does not have"
"""Message of a MERGE that fails on one."""


def comparable(value: str, type_: str) -> str:
    """Return the SQL of what equal values alone have in common: Spark takes -0 for 0."""
    return f"CAST({value} AS string)" if "float" in type_ or "double" in type_ else value


def literal(value: Value, type_: str) -> str:
    """Return a value of a type."""
    if value is None:
        return f"CAST(NULL AS {type_})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"unhex({quote_text(value.hex())})"
    return f"CAST({quote_text(str(value))} AS {type_})"


def merge(
    target: str,
    *,
    columns: Sequence[str],
    key: Iterable[int],
    nullable: bool,
    range_: str | None = None,
    groups: Sequence[Sequence[int]] = (),
    filled: Mapping[str, str] | None = None,
    marks: str | None = None,
    rest: Mapping[str, str] | None = None,
) -> str:
    """Return the MERGE that brings the collapsed rows in `CHANGES` into `target`.

    A row that lacks what is in the target alone fails it if the target has no such row.

    Args:
        target: The table's name, quoted.
        columns: Names of all columns, in the order of the source rows.
        key: Which of them identify a row.
        nullable: Whether a key column may be NULL, which then equals NULL.
        range_: A condition on the target alone that every changed row meets, to skip files by.
        groups: Columns that source rows may not hold, those together that have one `held`.
        filled: SQL of what the target's rows hold in columns that were just added.
        marks: As of `KeyedRows`.
        rest: As of `KeyedRows`, in SQL.
    """
    filled = filled or {}
    equals = "<=>" if nullable else "="
    # A column that was just added is NULL in the target's rows until this statement fills it.
    held_keys = [(i, filled.get(columns[i], f"t.{quote_identifier(columns[i])}")) for i in key]
    conditions = [f"{value} {equals} s.{source_column(i)}" for i, value in held_keys]
    if range_ is not None:
        conditions.append(f"({range_})")
    names = [quote_identifier(name) for name in columns]
    values = [f"s.{source_column(index)}" for index in range(len(columns))]
    kept = list(values)
    for number, group in enumerate(groups):
        for index in group:
            old = filled.get(columns[index], f"t.{names[index]}")
            kept[index] = f"CASE WHEN s.{held(number)} THEN {values[index]} ELSE {old} END"
    updates = ", ".join(f"t.{name} = {value}" for name, value in zip(names, kept, strict=True))
    if groups:
        refused = f"raise_error({quote_text(ORPHAN)})"
        values[0] = f"CASE WHEN s.{LACKS} IS NULL THEN {values[0]} ELSE {refused} END"
    deletes = "" if marks else f" WHEN MATCHED AND s.{DELETED} THEN DELETE"
    added = f" AND NOT s.{DELETED}"
    if marks:
        added = f" AND (NOT s.{DELETED} OR s.{LACKS} IS NULL)" if groups else ""
    others = ""
    if marks and rest is not None:
        others += _update_others({**filled, **rest}, f" AND t.{quote_identifier(marks)} IS NULL")
    if filled:
        others += _update_others(filled)
    return (  # Every name in it is quoted.
        f"MERGE INTO {target} AS t USING {CHANGES} AS s ON {' AND '.join(conditions)}"  # noqa: S608
        f"{deletes} WHEN MATCHED THEN UPDATE SET {updates}"
        f" WHEN NOT MATCHED{added}"
        f" THEN INSERT ({', '.join(names)}) VALUES ({', '.join(values)})"
        f"{others}"
    )


def _update_others(values: Mapping[str, str], where: str = "") -> str:
    """Return the clause of a MERGE for rows of the target that no source row is of."""
    pairs = ", ".join(f"t.{quote_identifier(name)} = {value}" for name, value in values.items())
    return f" WHEN NOT MATCHED BY SOURCE{where} THEN UPDATE SET {pairs}"


def copies_to_add(columns: Mapping[str, str]) -> str:
    """Return the query of `copies_to_write` where no row is to be removed."""
    listed = ", ".join(source_column(at) for at in range(len(columns)))
    return (
        f"SELECT {listed}, false AS {REMOVES}, 0 AS {SHORT} FROM {COLLAPSED}"  # noqa: S608
        f" LATERAL VIEW explode(sequence(1, {COPIES})) copy AS number WHERE {COPIES} > 0"
    )


def copies_to_write(
    target: str, columns: Mapping[str, str], filled: Mapping[str, str] | None = None
) -> str:
    """Return the query of what a MERGE of counted rows does, row by row, before it does that.

    Of rows that there are to be less of, all copies are removed (`REMOVES`), and those that stay
    are written again. `SHORT` is how many copies the target lacks of those that are to go.

    Args:
        target: The table's name, quoted.
        columns: Names and types of all columns, in the order of the source rows.
        filled: SQL of what the target's rows hold in columns that were just added.
    """
    filled = filled or {}
    names = [source_column(at) for at in range(len(columns))]
    types = columns.values()
    own = [filled.get(name, f"t.{quote_identifier(name)}") for name in columns]
    same = " AND ".join(
        f"{comparable(f't.{at}', type_)} <=> {comparable(f's.{at}', type_)}"
        for at, type_ in zip(names, types, strict=True)
    )
    found = ", ".join(f"{value} AS {at}" for at, value in zip(names, own, strict=True))
    kept = ", ".join(f"any_value(s.{name}) AS {name}" for name in names)
    by = ", ".join(comparable(f"s.{at}", type_) for at, type_ in zip(names, types, strict=True))
    less = (
        f"SELECT {kept}, any_value(s.{COPIES}) AS {COPIES}, count(t.found) AS found"  # noqa: S608
        f" FROM {COLLAPSED} AS s"
        f" LEFT JOIN (SELECT {found}, true AS found FROM {target} AS t) AS t ON {same}"
        f" WHERE s.{COPIES} < 0 GROUP BY {by}"
    )
    listed = ", ".join(names)
    return (  # Every name in it is quoted.
        f"WITH less AS ({less})"  # noqa: S608
        f" SELECT {listed}, true AS {REMOVES}, greatest(-{COPIES} - found, 0) AS {SHORT} FROM less"
        f" UNION ALL {copies_to_add(columns)}"
        f" UNION ALL SELECT {listed}, false, 0 FROM less"
        f" LATERAL VIEW explode(sequence(1, found + {COPIES})) copy AS number"
        f" WHERE found + {COPIES} > 0"
    )


def merge_copies(
    target: str,
    columns: Mapping[str, str],
    filled: Mapping[str, str] | None = None,
    *,
    removes: bool = True,
) -> str:
    """Return the MERGE of the rows of `copies_to_write`, in `CHANGES`.

    Where it `removes` none, it does not read the target.
    """
    filled = filled or {}
    own = [quote_identifier(name) for name in columns]
    same = " AND ".join(
        f"{comparable(filled.get(name, f't.{quote_identifier(name)}'), type_)}"
        f" <=> {comparable(f's.{source_column(at)}', type_)}"
        for at, (name, type_) in enumerate(columns.items())
    )
    values = ", ".join(f"s.{source_column(at)}" for at in range(len(own)))
    others = _update_others(filled) if filled else ""
    condition, deletes = f"s.{REMOVES} AND {same}", " WHEN MATCHED THEN DELETE"
    if not removes:
        condition, deletes = "false", ""
    return (
        f"MERGE INTO {target} AS t USING {CHANGES} AS s ON {condition}{deletes}"  # noqa: S608
        f" WHEN NOT MATCHED AND NOT s.{REMOVES} THEN INSERT ({', '.join(own)}) VALUES ({values})"
        f"{others}"
    )


def rows_to_keep(columns: Mapping[str, int]) -> str:
    """Return the query of the collapsed rows that are to be there, given each column's number."""
    return _select_kept(
        f"{source_column(at)} AS {quote_identifier(name)}" for name, at in columns.items()
    )


def _select_kept(values: Iterable[str]) -> str:
    return f"SELECT {', '.join(values)} FROM {CHANGES} WHERE NOT {DELETED}"  # noqa: S608


def select_source_rows(target: str, columns: Iterable[str]) -> str:
    """Return the query of all rows of a table, as source rows."""
    values = ", ".join(
        f"{quote_identifier(name)} AS {source_column(at)}" for at, name in enumerate(columns)
    )
    return f"SELECT {values}, false AS {DELETED} FROM {target}"  # noqa: S608


def create_table(
    target: str,
    *,
    provider: str,
    columns: Mapping[str, str],
    properties: Mapping[str, str],
    layout: str = "",
) -> str:
    """Return the CREATE TABLE of an empty table; `layout` is a clause of it."""
    return (
        f"CREATE TABLE {target} ({column_list(columns)}) USING {provider}{layout}"
        f" TBLPROPERTIES ({_pairs(properties)})"
    )


def create_table_as(
    target: str,
    *,
    provider: str,
    columns: Mapping[str, str],
    properties: Mapping[str, str],
    layout: str = "",
    command: str = "CREATE TABLE",
) -> str:
    """Return the CREATE TABLE, or other command, of a table with the collapsed rows."""
    rows = _select_kept(
        f"CAST({source_column(at)} AS {type_}) AS {quote_identifier(name)}"
        for at, (name, type_) in enumerate(columns.items())
    )
    return (
        f"{command} {target} USING {provider}{layout} TBLPROPERTIES ({_pairs(properties)})"
        f" AS {rows}"
    )


def alter_statements(target: str, columns: Iterable[str], evolution: Evolution) -> list[str]:
    """Return the statements that evolve a lake table; none takes a name that is in use.

    A dropped column is dropped last, so that the table always has one; until then another column
    may need its name.
    """
    alter, names = f"ALTER TABLE {target}", [*columns]
    needed = {name.lower() for name in (*evolution.renamed.values(), *evolution.added)}
    free = _free_names([*names, *needed])
    aside = {name: next(free) for name in evolution.dropped if name.lower() in needed}
    dropped = [aside.get(name, name) for name in evolution.dropped]
    statements = [
        f"{alter} RENAME COLUMN {quote_identifier(old)} TO {quote_identifier(new)}"
        for old, new in order_renames(names, aside | evolution.renamed)
    ]
    for name, type_ in evolution.widened.items():
        statements.append(f"{alter} ALTER COLUMN {quote_identifier(name)} TYPE {type_}")
    if evolution.added:
        statements.append(f"{alter} ADD COLUMNS ({column_list(evolution.added)})")
    if dropped:
        statements.append(f"{alter} DROP COLUMNS ({', '.join(map(quote_identifier, dropped))})")
    return statements


def order_renames(names: Iterable[str], renamed: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return old and new names, one rename after the other, given the names of all columns.

    A column that gives its name to another, or changes its case, takes a free name in between.
    """
    pending, free = dict(renamed), _free_names([*names, *renamed.values()])
    ordered = []
    while pending:
        taken = {name.lower() for name in pending}
        old = next((old for old, new in pending.items() if new.lower() not in taken), None)
        if old is None:
            old, new = next(iter(pending)), next(free)
            pending[new] = pending.pop(old)
        else:
            new = pending.pop(old)
        ordered.append((old, new))
    return ordered


def _free_names(names: Iterable[str]) -> Iterator[str]:
    taken = {name.lower() for name in names}
    return filter(lambda name: name not in taken, map("_column_{}".format, count(1)))


def set_properties(target: str, properties: Mapping[str, str]) -> str:
    """Return the ALTER TABLE that sets properties."""
    return f"ALTER TABLE {target} SET TBLPROPERTIES ({_pairs(properties)})"


def column_list(columns: Mapping[str, str]) -> str:
    """Return names and types as SQL lists them."""
    return ", ".join(f"{quote_identifier(name)} {type_}" for name, type_ in columns.items())


def _pairs(properties: Mapping[str, str]) -> str:
    pairs = properties.items()
    return ", ".join(f"{quote_text(key)} = {quote_text(value)}" for key, value in pairs)
