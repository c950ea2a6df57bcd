"""Airflow's api-server over the home of a test, and requests to it as one of its users."""

from __future__ import annotations

import http.client
import json
import os
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tests.services.processes import free_port
from tests.services.progress import ServiceError
from tests.support.worker import start_group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.services.processes import Process

_SCRIPTS = sysconfig.get_path("scripts")
AIRFLOW = f"{_SCRIPTS}/airflow"
ROLES = ("admin", "op", "user", "viewer")
"""A user of each name has the role of that name."""

_START_SECONDS = 180.0


@dataclass
class Answer:
    """An answer of the api-server."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        """The text as JSON."""
        return json.loads(self.text)


@dataclass
class ApiServer:
    """A running api-server.

    Attributes:
        process: It, or the program that started it.
        path: That of Airflow's UI; requests are relative to it.
    """

    home: Path
    port: int
    process: Process
    path: str = ""
    _tokens: dict[str, str] = field(default_factory=dict)

    @classmethod
    def start(
        cls, home: Path, variables: Mapping[str, str], *command: str, path: str = ""
    ) -> ApiServer:
        """Start it; `path` is that of Airflow's UI, where a proxy would have it."""
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        own = {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__API__BASE_URL": f"{url}{path}",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            # `airflow standalone` starts the first `airflow` that it finds.
            "PATH": f"{_SCRIPTS}:{variables.get('PATH', os.environ['PATH'])}",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{r}:{r}" for r in ROLES),
        }
        process = start_group(
            (AIRFLOW, *(command or ("api-server",))),
            folder=home,
            name="api-server",
            env=os.environ | dict(variables) | own,
        )
        return cls(home, port, process, path)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def await_health(self, *components: str) -> None:
        """Return once it answers, and says that components are healthy.

        Raises:
            ServiceError: It ended, or takes too long.
        """
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_healthy(components):
            if not self.process.alive:
                raise ServiceError(self.process.failure("it ended"))
            if time.monotonic() > deadline:
                raise ServiceError(self.process.failure("it is not healthy in time"))
            time.sleep(0.2)

    def _is_healthy(self, components: tuple[str, ...]) -> bool:
        try:
            answer = self.request("GET", "/api/v2/monitor/health").json
        except (OSError, ValueError, http.client.HTTPException):
            return False
        return all(answer[name]["status"] == "healthy" for name in components)

    def token(self, user: str) -> str:
        """Return a user's token."""
        if user not in self._tokens:
            file = self.home / "simple_auth_manager_passwords.json.generated"
            account = {"username": user, "password": json.loads(file.read_text())[user]}
            answer = self.request("POST", "/auth/token", body=account)
            self._tokens[user] = str(answer.json["access_token"])
        return self._tokens[user]

    def request(
        self,
        method: str,
        path: str,
        *,
        user: str | None = None,
        body: Any = None,
        form: Any = None,
        **headers: str,
    ) -> Answer:
        """Return the answer to a request, with a user's cookie; redirections are not followed."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None
        if user is not None:
            sent["cookie"] = f"_token={self.token(user)}"
        if body is not None:
            data, sent["content-type"] = json.dumps(body), "application/json"
        if form is not None:
            data = urlencode(form, doseq=True)
            sent["content-type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"{self.path}{path}", data, sent)
            response = connection.getresponse()
            text = response.read().decode()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, text)
        finally:
            connection.close()

    def stop(self) -> None:
        """End it."""
        self.process.stop()
