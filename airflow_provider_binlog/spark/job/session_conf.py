"""What a Spark session needs for the merge, as plain `--conf` values.

For the operator, the demo and the tests; a cluster that has these already needs nothing from here.
"""

from __future__ import annotations

_EXTENSIONS = "spark.sql.extensions"
_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_ICEBERG_EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def delta_conf() -> dict[str, str]:
    """Return the settings that make Delta tables readable and writable."""
    return {
        _EXTENSIONS: _DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def iceberg_conf(catalog: str, warehouse: str) -> dict[str, str]:
    """Return the settings of an Iceberg catalog that is a folder.

    Such a catalog commits by renaming a file: safe on a file system and on HDFS; on an object store
    only while one job at a time writes. Any other catalog of Iceberg serves as well.
    """
    prefix = f"spark.sql.catalog.{catalog}"
    return {
        _EXTENSIONS: _ICEBERG_EXTENSION,
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "hadoop",
        f"{prefix}.warehouse": warehouse,
        # Each session of the job would keep its own stale copy of a table for half a minute.
        f"{prefix}.cache-enabled": "false",
    }


def s3a_conf(
    *, endpoint: str | None, access_key: str, secret_key: str, region: str = "us-east-1"
) -> dict[str, str]:
    """Return the settings with which `s3a://` reaches an S3 store; no endpoint: Amazon's own."""
    prefix = "spark.hadoop.fs.s3a"
    conf = {
        f"{prefix}.access.key": access_key,
        f"{prefix}.secret.key": secret_key,
        f"{prefix}.endpoint.region": region,
    }
    if endpoint is not None:
        conf |= {
            f"{prefix}.endpoint": endpoint,
            f"{prefix}.path.style.access": "true",
            f"{prefix}.connection.ssl.enabled": str(endpoint.startswith("https:")).lower(),
        }
    return conf


def join_confs(*confs: dict[str, str]) -> dict[str, str]:
    """Return all settings in one: extensions add up, of other settings the last one holds."""
    joined: dict[str, str] = {}
    for conf in confs:
        extensions = [joined.get(_EXTENSIONS), conf.get(_EXTENSIONS)]
        joined |= conf
        if all(extensions):
            joined[_EXTENSIONS] = ",".join(map(str, extensions))
    return joined
