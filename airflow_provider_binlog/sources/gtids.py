"""Where in a server's log a GTID set ends."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.capture.capture_range import executed_at
from airflow_provider_binlog.capture.staged_transactions import position_with_gtids
from airflow_provider_binlog.errors import ConfigurationError, FormatError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server import queries
from airflow_provider_binlog.transport.stream.live import ServerBlockStream

if TYPE_CHECKING:
    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.sources.settings import ConnectionSettings


def find_gtids(settings: ConnectionSettings, gtids: str) -> Position:
    """Return where the first transaction begins that is not in the set.

    Some transactions of the set may be logged after that position; its `logged` then names those
    that are logged before it.

    Raises:
        ConfigurationError: The text is no GTID set of the server's family.
        PositionPurgedError: The server has purged transactions that are not in the set.
        ForeignPositionError: The server's log lacks some of the set.
    """
    with closing(settings.connect()) as connection:
        identity = queries.identify(connection)
        flavor = identity.flavor
        try:
            of_family = GtidSet if flavor is Flavor.MYSQL else MariadbGtidPosition
            known = str(of_family.parse(gtids))
        except FormatError as error:
            raise ConfigurationError(
                f"not a GTID set of a {flavor.value} server: {error}"
            ) from error
        queries.check_gtids(connection, known)
    with closing(
        ServerBlockStream(
            settings.connect,
            flavor=flavor,
            server_id=settings.server_id,
            silence_seconds_max=settings.read_timeout,
        )
    ) as source:
        found = source.position_after(known)
        logged = executed_at(source, identity, found)
    if logged is None:
        return found
    return position_with_gtids(flavor, found, staged=known, logged=logged)
