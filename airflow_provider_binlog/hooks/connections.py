"""Airflow's connections, as a task finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_binlog.errors import ConnectionNotFoundError

if TYPE_CHECKING:
    from airflow.sdk import Connection


def find_connection(conn_id: str, refusal: str) -> Connection:
    """Return a connection.

    Args:
        conn_id: Its id.
        refusal: What an error says.

    Raises:
        ConnectionNotFoundError: Airflow has none of this id, or does not say.
    """
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise ConnectionNotFoundError(refusal, conn_id=conn_id) from error
