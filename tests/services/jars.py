"""The jars that Spark needs, for Delta, Iceberg and S3: resolved once, then plain files."""

from __future__ import annotations

import hashlib
import os
import shutil
import sysconfig
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.services.cache import obtain
from tests.services.java import java_home
from tests.services.progress import run, step

_PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.apache.hadoop:hadoop-aws:3.4.2",
    "software.amazon.awssdk:s3:2.29.52",
    "software.amazon.awssdk:s3-transfer-manager:2.29.52",
    "software.amazon.awssdk:sts:2.29.52",
)
# The ways to a server, and to a file, that keep an Iceberg catalog; and Iceberg's own to S3.
_CATALOG_PACKAGES = (
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
    "org.mariadb.jdbc:mariadb-java-client:2.7.12",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
_POSTGRESQL_PACKAGES = ("org.postgresql:postgresql:42.7.14",)
# What Spark itself brings, and what no test needs: 72 MB of jars instead of 764.
_EXCLUDED = (
    "com.fasterxml.jackson.core:*",
    "com.fasterxml.jackson.datatype:*",
    "com.github.luben:*",
    "io.netty:*",
    "io.unitycatalog:*",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:*",
    "org.apache.parquet:*",
    "org.slf4j:*",
    "org.wildfly.openssl:*",
    "org.xerial.snappy:*",
    "software.amazon.awssdk:bundle",
    "software.amazon.s3.analyticsaccelerator:*",
)


def spark_jars() -> list[Path]:
    """Return the jars, for `spark.jars`: files in the cache, never resolved again.

    Raises:
        ServiceError: They are not in the cache, and cannot be downloaded.
    """
    return _jars(_PACKAGES)


def postgresql_jars() -> list[Path]:
    """Return the JDBC driver of PostgreSQL.

    Raises:
        ServiceError: As `spark_jars`.
    """
    return _jars(_POSTGRESQL_PACKAGES)


def catalog_jars() -> list[Path]:
    """Return the jars of JDBC, for a session that has the others already.

    Raises:
        ServiceError: As `spark_jars`.
    """
    return _jars(_CATALOG_PACKAGES)


def _jars(packages: Sequence[str]) -> list[Path]:
    key = hashlib.sha256(repr((packages, _EXCLUDED)).encode()).hexdigest()[:12]
    return sorted(obtain(f"jars/{key}", partial(_resolve, packages)).glob("*.jar"))


def spark_home() -> Path:
    """Return the Spark of this environment."""
    return Path(sysconfig.get_path("purelib")) / "pyspark"


def _resolve(packages: Sequence[str], folder: Path) -> None:
    """Let Spark resolve the packages as it would for `spark.jars.packages`."""
    work = folder / "work"
    work.mkdir()
    application = work / "nothing.py"
    application.write_text("")
    argv: list[str | Path] = [spark_home() / "bin" / "spark-submit", "--master", "local[1]"]
    argv += ["--packages", ",".join(packages), "--exclude-packages", ",".join(_EXCLUDED)]
    argv += ["--conf", f"spark.jars.ivy={work / 'ivy'}"]
    # Ivy also looks into ~/.m2, where half an entry (a POM without its jar) makes it fail.
    argv += ["--driver-java-options", f"-Duser.home={work}", application]
    with step("Spark's jars: download"):
        run(argv, env=os.environ | {"JAVA_HOME": str(java_home())}, folder=work)
    for jar in (work / "ivy" / "jars").glob("*.jar"):
        jar.rename(folder / jar.name)
    shutil.rmtree(work)
