"""Where in a server's log a GTID set ends."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ConfigurationError, FormatError
from airflow_provider_binlog.transport import questions

if TYPE_CHECKING:
    from airflow_provider_binlog.hooks.settings import ConnectionSettings
    from airflow_provider_binlog.position import Position


def find_gtids(settings: ConnectionSettings, gtids: str) -> Position:
    """Return where the first transaction begins that is not in the set.

    Raises:
        ConfigurationError: The text is no GTID set of the server's family.
        PositionPurgedError: The server has purged transactions that are not in the set.
        ForeignPositionError: The set is not of this server's history.
    """
    # Here, because it loads NumPy, which parsing a DAG must not.
    from airflow_provider_binlog.transport.live import LiveSource

    with closing(settings.connect()) as connection:
        flavor = questions.identify(connection).flavor
    source = LiveSource(settings.connect, flavor=flavor, server_id=settings.server_id)
    try:
        return source.position_after(gtids)
    except FormatError as error:
        raise ConfigurationError(f"not a GTID set of a {flavor.value} server: {error}") from error
