"""A Hive metastore of its own process, from the jars that Spark brings, over a Derby database."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.services.jars import spark_home
from tests.services.java import java_home
from tests.services.processes import Process, free_port

_JAVA_OPTIONS = ("-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class HiveMetastore:
    """A metastore on loopback; its database lies in a folder, and outlives it.

    Attributes:
        conf: The settings of Spark's that lead to it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._port = free_port()
        self.conf = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{self._port}",
            "spark.sql.warehouse.dir": f"file://{self._folder}/warehouse",
        }
        self._process: Process | None = None

    def start(self) -> None:
        """Start the metastore, and return when it listens.

        Raises:
            ServiceError: It does not start.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": f"file://{self._folder}/warehouse",
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:{self._folder}/metastore;create=true",
        }
        given = [part for each in settings.items() for part in ("--hiveconf", "=".join(each))]
        java = (java_home() / "bin" / "java", *_JAVA_OPTIONS)
        # Its logger would need classes that Spark does not have.
        system = ("-Dhive.async.log.enabled=false", f"-Dderby.system.home={self._folder}")
        program = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        argv = (*java, *system, "-cp", f"{spark_home()}/jars/*", program, "-p", str(self._port))
        self._process = Process((*argv, *given), folder=self._folder, name="hive", env=os.environ)
        self._process.wait_until(self._listens)

    def stop(self) -> None:
        """End the metastore."""
        if self._process is not None:
            self._process.stop()

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=5).close()
        except OSError:
            return False
        return True
