"""What a TABLE_MAP does not say, and what is printed for want of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.column_types import BLOBS, VARCHARS, ColumnType
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.rows.types.plans import INTEGER_SIZES
from airflow_provider_binlog.schema_history.facts import may_be_another_type
from airflow_provider_binlog.transport.server.status import parse_version

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.format_description import FormatDescription
    from airflow_provider_binlog.binlog.events.table_map import TableMap

_TEXT = BLOBS | VARCHARS | {ColumnType.STRING}
_ENUMS = frozenset({ColumnType.ENUM, ColumnType.SET})


def missing_metadata(table_map: TableMap, file_format: FormatDescription) -> list[str]:
    """Return what the log leaves out that would change what is printed; empty if nothing."""
    columns = table_map.columns
    version = parse_version(file_format.server_version).version
    kinds = {
        "how its columns are called (@1, @2, ... stand for them)": any(
            column.name is None for column in columns
        ),
        "which integers are unsigned (all are printed as if signed)": any(
            column.real_type in INTEGER_SIZES and column.unsigned is None for column in columns
        ),
        "what is text and in which character set (UTF-8 is printed as text, the rest as base64)": (
            any(column.real_type in _TEXT and column.collation is None for column in columns)
        ),
        "the values of ENUM and SET (their numbers are printed)": any(
            column.real_type in _ENUMS
            and (column.collation is None or (column.enum_values or column.set_members) is None)
            for column in columns
        ),
        "whether what looks like BINARY is UUID, INET or VECTOR (it is printed as base64)": any(
            file_format.flavor is Flavor.MARIADB
            and column.collation is not None
            and may_be_another_type(column, version)
            for column in columns
        ),
    }
    return [text for text, applies in kinds.items() if applies]
