"""How the columns of a table are selected, and how the rows that come are read.

What the rows become is what the log's rows of the same table become: every column has the type,
the conversions and the policies of its `ColumnLayout`. Only what a result set writes otherwise than
the log is read in its own way.

The session that selects has `character_set_results=NULL`, so that text comes in the column's
character set, as in the log, and `time_zone='+00:00'`.

Source: MySQL 9.7 reference manual, 12.4 Connection Character Sets and Collations; MySQL Internals,
"Binary Protocol Value".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.changes import Policies, ZeroDates
from airflow_provider_binlog.errors import BinlogError, FormatError
from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.rows.conversion import Converted, convert_columns
from airflow_provider_binlog.rows.memory import Memory
from airflow_provider_binlog.rows.results import decimals, temporals
from airflow_provider_binlog.rows.results.located import (
    MOMENT,
    STRING,
    Form,
    form_of,
    locate_columns,
)
from airflow_provider_binlog.rows.types import moments, text
from airflow_provider_binlog.rows.types.plans import INTEGER_SIZES, plan_column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn
    from airflow_provider_binlog.rows.layout import ColumnLayout, RowLayout
    from airflow_provider_binlog.rows.memory import Int64Array
    from airflow_provider_binlog.rows.values import Array, Convert, Plan, Values

_T = ColumnType
_NUMBER_FORMS: dict[int, Form] = {
    code: form_of(code) for code in (*INTEGER_SIZES, _T.FLOAT, _T.DOUBLE, _T.YEAR)
}
_DATES = frozenset({_T.DATE, _T.NEWDATE})
_DATETIMES = frozenset({_T.DATETIME, _T.DATETIME2})
_TIMESTAMPS = frozenset({_T.TIMESTAMP, _T.TIMESTAMP2})
_TIMES = frozenset({_T.TIME, _T.TIME2})
# What is sent as if it were of another type. Of ENUM and SET that is the text itself: what
# information_schema prints of their values may have lost characters.
_SENT_AS: dict[int, int] = {
    **dict.fromkeys((_T.VARCHAR_COMPRESSED, _T.ENUM, _T.SET), _T.VARCHAR),
    _T.BLOB_COMPRESSED: _T.BLOB,
}
_UTF8 = "utf8mb4"


@dataclass(frozen=True)
class ResultLayout:
    """How to select all columns of a table, and to read them.

    Attributes:
        rows: The columns, each with the plan by which its value in a result set is read.
        forms: How each is sent.
        expressions: What is selected, one per column.
    """

    rows: RowLayout
    forms: tuple[Form, ...]
    expressions: tuple[str, ...]

    def check_types(self, type_codes: Sequence[int]) -> None:
        """Refuse a result set whose columns are not of these types.

        Raises:
            FormatError: A column is not sent in a form in which it can be read.
        """
        if len(type_codes) != len(self.forms):
            raise FormatError("a result set has other columns than were selected")
        for column, form, code in zip(self.rows.columns, self.forms, type_codes, strict=True):
            if form_of(code) != form:
                raise FormatError(
                    "the server sends a column as another type than it has",
                    column=column.name,
                    type=column.mysql_type,
                )

    def decode(self, data: npt.NDArray[np.uint8], start: Int64Array, stop: Int64Array) -> Converted:
        """Return the columns of some rows, of the types that the table's rows in the log have.

        Args:
            data: Bytes with some to spare before the rows and after them.
            start: Where each row begins, at its NULL bits.
            stop: Where each row ends.

        Raises:
            FormatError: A row breaks the format.
            UnsupportedError: A zero or invalid date is refused.
        """
        memory = Memory(data, int(stop[-1]) if len(stop) else 0)
        found = locate_columns(self.forms, memory, start, stop)
        try:
            return convert_columns(self.rows, found, np.arange(len(start)))
        except BinlogError as error:
            # The number of the row in its block says nothing to anybody.
            error.context.pop("event", None)
            raise


def compile_results(layout: RowLayout) -> ResultLayout:
    """Return how to select the columns of a table and to read what comes."""
    read = [_column(each, layout.policies) for each in layout.columns]
    return ResultLayout(
        replace(
            layout,
            columns=tuple(
                replace(column, plan=plan)
                for column, (_, plan) in zip(layout.columns, read, strict=True)
            ),
        ),
        tuple(form for form, _ in read),
        tuple(_expression(each) for each in layout.columns),
    )


def _expression(column: ColumnLayout) -> str:
    """Return what is selected: of most columns, themselves."""
    name, kind = quote_identifier(column.name), column.logged.real_type
    if kind == _T.NEWDECIMAL:
        # Without the zeros in front that ZEROFILL prints.
        return f"CAST({name} AS DECIMAL({column.logged.precision},{column.logged.scale}))"
    return name


def _column(column: ColumnLayout, policies: Policies) -> tuple[Form, Plan]:
    """Return how a column is sent, and the plan by which it is read."""
    logged, plan = column.logged, column.plan
    kind = logged.real_type
    if kind in _NUMBER_FORMS:
        is_year = kind == _T.YEAR
        return _NUMBER_FORMS[kind], replace(plan, convert=temporals.years) if is_year else plan
    if kind in _TIMES:
        return MOMENT, replace(plan, convert=temporals.times)
    if kind in _DATES | _DATETIMES | _TIMESTAMPS:
        return MOMENT, _moment_plan(logged, as_text=policies.zero_dates is ZeroDates.TEXT)
    return STRING, _string_plan(logged, plan, policies)


def _string_plan(logged: TableMapColumn, plan: Plan, policies: Policies) -> Plan:
    """Return the plan of a column that is sent as a string."""
    kind = logged.real_type
    if logged.data_type in ("inet4", "inet6", "uuid") or kind == _T.JSON:
        return text.plan(1, _UTF8)
    if kind == _T.NEWDECIMAL:
        return replace(plan, convert=_decimal(plan.arrow_type))
    if kind == _T.BIT:
        return replace(plan, convert=partial(_exact, size=plan.size, convert=plan.convert))
    if kind in _SENT_AS:
        sent = replace(logged, type_code=_SENT_AS[kind], real_type=_SENT_AS[kind])
        return plan_column(sent, policies, allow_missing_metadata=False)
    return plan


def _decimal(data_type: pa.DataType) -> Convert:
    if isinstance(data_type, pa.Decimal128Type):
        return decimals.converter(data_type)
    return text.plan(1, _UTF8).convert


def _moment_plan(logged: TableMapColumn, *, as_text: bool) -> Plan:
    kind = logged.real_type
    if kind in _DATES:
        return moments.date_plan(temporals.read_moments, 0, as_text=as_text)
    old = kind in (_T.DATETIME, _T.TIMESTAMP)
    fsp = (logged.datetime_precision or 0) if old else logged.fsp
    if kind in _DATETIMES:
        return moments.datetime_plan(temporals.read_moments, 0, fsp, as_text=as_text)
    return moments.timestamp_plan(temporals.read_instants, 0, fsp, as_text=as_text)


def _exact(values: Values, *, size: int, convert: Callable[[Values], Array]) -> Array:
    """Read values that must all have `size` bytes."""
    sizes = values.lengths if values.null is None else values.lengths[~values.null]
    if (sizes != size).any():
        raise FormatError("a value does not have the size of its column", size=size)
    return convert(values)
