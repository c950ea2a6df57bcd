"""Settings of Spark for the stores of tests and of the demo, and several settings in one."""

from __future__ import annotations

_EXTENSIONS = "spark.sql.extensions"


def s3a_conf(*, endpoint: str, access_key: str, secret_key: str) -> dict[str, str]:
    """Return the settings with which `s3a://` reaches an S3 server without TLS."""
    prefix = "spark.hadoop.fs.s3a"
    return {
        f"{prefix}.access.key": access_key,
        f"{prefix}.secret.key": secret_key,
        f"{prefix}.endpoint.region": "us-east-1",
        f"{prefix}.endpoint": endpoint,
        f"{prefix}.path.style.access": "true",
        f"{prefix}.connection.ssl.enabled": "false",
    }


def join_confs(*confs: dict[str, str]) -> dict[str, str]:
    """Return all settings in one: extensions add up, of other settings the last one holds."""
    joined: dict[str, str] = {}
    for conf in confs:
        extensions = [joined.get(_EXTENSIONS), conf.get(_EXTENSIONS)]
        joined |= conf
        if all(extensions):
            joined[_EXTENSIONS] = ",".join(map(str, extensions))
    return joined
