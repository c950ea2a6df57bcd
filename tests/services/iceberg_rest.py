"""An Iceberg catalog of a REST server: Iceberg's own, over a JDBC catalog in SQLite."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

from tests.services.cache import obtain
from tests.services.java import java_home
from tests.services.maven import Artifact, download
from tests.services.processes import Process, free_port
from tests.services.progress import step

_ARTIFACT = Artifact("org.apache.iceberg", "iceberg-open-api", "1.9.2", "jar", "")
_JAVA_OPTIONS = ("-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class RestCatalogServer:
    """A server on loopback; its catalog and the tables lie in a folder, and outlive it.

    Attributes:
        port: Chosen once; it stays over restarts.
        uri: Its address.
    """

    host = "127.0.0.1"

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self.port = free_port()
        self.uri = f"http://{self.host}:{self.port}"
        self._process: Process | None = None

    def start(self) -> None:
        """Start the server, and return when it answers.

        Raises:
            ServiceError: It does not start.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        jar = obtain(f"{_ARTIFACT.name}/{_ARTIFACT.version}", _make) / "server.jar"
        settings = {
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            # SQLite refuses what a second connection writes at the same time.
            "CATALOG_CLIENTS": "1",
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_URI": f"jdbc:sqlite:{self._folder}/catalog.db",
            "CATALOG_WAREHOUSE": f"file://{self._folder}/warehouse",
        }
        home = f"-Duser.home={self._folder}"
        argv = (java_home() / "bin" / "java", *_JAVA_OPTIONS, home, "-jar", jar)
        env = os.environ | settings
        self._process = Process(argv, folder=self._folder, name="rest", env=env)
        self._process.wait_until(self._answers)

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self._process.stop()

    def _answers(self) -> bool:
        try:
            with closing(HTTPConnection(self.host, self.port, timeout=5)) as connection:
                connection.request("GET", "/v1/config")
                return connection.getresponse().status == HTTPStatus.OK
        except OSError:
            return False


def _make(folder: Path) -> None:
    with step("Iceberg's REST server: download (192 MB, once)"):
        download(_ARTIFACT, folder).rename(folder / "server.jar")
    shutil.rmtree(folder / "download")
