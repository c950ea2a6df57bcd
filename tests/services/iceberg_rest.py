"""An Iceberg catalog of a REST server: Iceberg's own, over a JDBC catalog in SQLite."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

from tests.services.cache import obtain
from tests.services.java import java_home
from tests.services.maven import Artifact, download
from tests.services.processes import Process, free_port
from tests.services.progress import step

if TYPE_CHECKING:
    from tests.services.s3 import S3Server

_ARTIFACT = Artifact("org.apache.iceberg", "iceberg-open-api", "1.9.2", "jar", "")
_JAVA_OPTIONS = ("-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class RestCatalogServer:
    """A server on loopback; its catalog and the tables lie in a folder, and outlive it.

    Or the tables are on S3, below a warehouse, for which readers get keys with each table.

    Attributes:
        port: Chosen once; it stays over restarts.
        uri: Its address.
    """

    host = "127.0.0.1"

    def __init__(self, folder: Path, s3: S3Server | None = None, warehouse: str = "") -> None:
        self._folder = folder.absolute()
        self._storage = {"CATALOG_WAREHOUSE": warehouse or f"file://{self._folder}/warehouse"}
        if s3 is not None:
            self._storage |= {
                "CATALOG_CLIENT_REGION": s3.region,
                "CATALOG_INCLUDE__CREDENTIALS": "true",
                "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
                "CATALOG_S3_ACCESS__KEY__ID": s3.access_key,
                "CATALOG_S3_ENDPOINT": s3.endpoint,
                "CATALOG_S3_PATH__STYLE__ACCESS": "true",
                "CATALOG_S3_SECRET__ACCESS__KEY": s3.secret_key,
            }
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
        }
        home = f"-Duser.home={self._folder}"
        argv = (java_home() / "bin" / "java", *_JAVA_OPTIONS, home, "-jar", jar)
        env = os.environ | settings | self._storage
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
