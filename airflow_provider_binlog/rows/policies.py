"""How values are staged that no lake type holds.

Policies decide the staged type of a column, so they are those of a whole range: a column's type
never depends on its values.

Source: mysql-server sql/sql_time.cc, my_date_to_str; the sql_modes NO_ZERO_DATE, NO_ZERO_IN_DATE
and ALLOW_INVALID_DATES, which let such dates in.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_binlog.changes import InvalidText, ZeroDates


@dataclass(frozen=True)
class Policies:
    """How a range is staged where there is more than one right way.

    Attributes:
        zero_dates: Of DATE, DATETIME and TIMESTAMP.
        invalid_text: Of CHAR, VARCHAR, TEXT, ENUM and SET.
    """

    zero_dates: ZeroDates = ZeroDates.NULL
    invalid_text: InvalidText = InvalidText.FAIL


DEFAULT_POLICIES = Policies()
