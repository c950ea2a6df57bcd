"""Airflow's public REST API, called in this process as the person who is logged in.

Airflow itself authorises each call, and notes those that change something in its audit log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from httpx import ASGITransport, AsyncClient, Response

from airflow_provider_binlog.errors import BinlogError

_SECONDS_MAX = 20.0
_PAGE = 100
"""Entries of one answer: the API's own limit by default."""


class AirflowRefusedError(BinlogError):
    """Airflow's API refused a call."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True)
class AirflowApi:
    """The API as one person.

    Attributes:
        application: Airflow's ASGI application.
        token: The person's, for a minute.
    """

    application: Callable[..., Any]
    token: str

    async def get(self, path: str, **query: Any) -> Any:
        """Return the answer to GET."""
        return await self._call("GET", path, query=query)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to POST."""
        return await self._call("POST", path, body=body)

    async def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the answer to PATCH."""
        return await self._call("PATCH", path, body=body)

    async def list_newest(
        self, key: str, path: str, *, pages: int = 1, **query: Any
    ) -> list[dict[str, Any]]:
        """Return the entries of the first pages of a collection, which the answer calls `key`."""
        entries: list[dict[str, Any]] = []
        for page in range(pages):
            answer = await self.get(path, limit=_PAGE, offset=page * _PAGE, **query)
            entries += answer[key]
            if len(answer[key]) < _PAGE:
                break
        return entries

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the JSON of an answer.

        Raises:
            AirflowRefusedError: The status is none of success, or there is no answer in time.
        """
        transport = ASGITransport(self.application, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {self.token}"}
        async with AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        ) as client:
            try:
                async with asyncio.timeout(_SECONDS_MAX):
                    answer = await client.request(method, path, params=query, json=body)
            except TimeoutError:
                raise AirflowRefusedError(504, "Airflow's API does not answer") from None
        if answer.is_success:
            return answer.json()
        raise AirflowRefusedError(answer.status_code, _detail(answer))


def _detail(answer: Response) -> str:
    """Return why a call was refused."""
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = None
    return str(detail or f"Airflow's API answered {answer.status_code}")
