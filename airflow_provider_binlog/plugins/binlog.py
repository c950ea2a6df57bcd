"""The plugin: an application that the api-server mounts, and the view of it in Airflow's UI.

Every process of Airflow imports this module: nothing heavy is imported before the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

from airflow_provider_binlog.operators.links import PREFIX, ROUTE, base_path

AIRFLOW_APP = "binlog.airflow_app"
"""Key of Airflow's own application in the scope of a request."""


class LazyApplication:
    """ASGI application that is made at its first request."""

    def __init__(self) -> None:
        self._made: Any = None
        self._lock = asyncio.Lock()

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        """Answer a request."""
        async with self._lock:
            if self._made is None:
                self._made = await asyncio.to_thread(_make)
        scope[AIRFLOW_APP] = scope["app"]
        await self._made(scope, receive, send)


def _make() -> Any:
    # It brings the readers of manifests and logs.
    from airflow_provider_binlog.plugins.application import make_application

    return make_application()


class BinlogPlugin(AirflowPlugin):
    """The page `Binlog` under Browse."""

    name = "binlog"
    fastapi_apps = [  # noqa: RUF012
        {"app": LazyApplication(), "url_prefix": f"/{PREFIX}", "name": "Binlog"}
    ]
    external_views = [  # noqa: RUF012
        {
            "name": "Binlog",
            "href": f"{base_path()}/{PREFIX}/",
            "destination": "nav",
            "category": "browse",
            "url_route": ROUTE,
        }
    ]
