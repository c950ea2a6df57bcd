"""Where in a server's log a GTID set ends."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.errors import ConfigurationError, FormatError
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.transport.server import queries as questions

if TYPE_CHECKING:
    from airflow_provider_binlog.hooks.settings import ConnectionSettings
    from airflow_provider_binlog.position import Position


def find_gtids(settings: ConnectionSettings, gtids: str) -> Position:
    """Return where the first transaction begins that is not in the set.

    Some of the set may stand behind that place; the position's `logged` then says what stands
    before it.

    Raises:
        ConfigurationError: The text is no GTID set of the server's family.
        PositionPurgedError: The server has purged transactions that are not in the set.
        ForeignPositionError: The server's log lacks some of the set.
    """
    # Here, because they load NumPy, which parsing a DAG must not.
    from airflow_provider_binlog.capture.capture_range import executed_at
    from airflow_provider_binlog.capture.known import place_at
    from airflow_provider_binlog.transport.stream.live import ServerBlockStream

    with closing(settings.connect()) as connection:
        identity = questions.identify(connection)
        flavor = identity.flavor
        try:
            of_family = GtidSet if flavor is Flavor.MYSQL else MariadbGtidPosition
            known = str(of_family.parse(gtids))
        except FormatError as error:
            raise ConfigurationError(
                f"not a GTID set of a {flavor.value} server: {error}"
            ) from error
        questions.check_gtids(connection, known)
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
    return place_at(flavor, found, known=known, logged=logged)
