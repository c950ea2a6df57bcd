"""The provider's metadata, which Airflow reads when it starts."""

from __future__ import annotations

from airflow_provider_binlog import MODULES
from airflow_provider_binlog.sources.settings import SSL_MODES

_INTEGRATION = "MySQL binary log"


def get_provider_info() -> dict[str, object]:
    """Return the provider's metadata, as Airflow's provider manager reads it.

    The connection form is described here, not in the hook: Airflow draws it without importing
    the hook. Keys are kebab-case, those of `conn-fields` are the keys of the connection's extra.
    """
    return {
        "package-name": "airflow-provider-binlog",
        "name": "MySQL and MariaDB binary log",
        "description": "Change data capture from MySQL and MariaDB binary logs.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://dev.mysql.com/doc/refman/9.7/en/binary-log.html",
                "tags": ["software"],
            }
        ],
        **{name: _modules(name) for name in ("hooks", "sensors", "triggers", "operators")},
        "notifications": ["airflow_provider_binlog.notifications.tables.BinlogNotLiveNotifier"],
        "connection-types": [_connection_type()],
        "extra-links": [
            "airflow_provider_binlog.operators.links.BinlogErrorLink",
            "airflow_provider_binlog.operators.links.BinlogManifestLink",
            "airflow_provider_binlog.operators.links.BinlogSourceLink",
        ],
        "cli": ["airflow_provider_binlog.cli.commands.get_binlog_cli_commands"],
    }


def _modules(folder: str) -> list[dict[str, object]]:
    """Return the modules of a folder that the package exports from."""
    names = sorted({name for name in MODULES.values() if name.startswith(f"{folder}.")})
    listed = [f"airflow_provider_binlog.{name}" for name in names]
    return [{"integration-name": _INTEGRATION, "python-modules": listed}]


def _connection_type() -> dict[str, object]:
    return {
        "connection-type": "binlog",
        "hook-class-name": "airflow_provider_binlog.hooks.binlog.BinlogHook",
        "hook-name": "MySQL / MariaDB binary log",
        "ui-field-behaviour": {
            "hidden-fields": ["schema"],
            "relabeling": {"login": "User"},
            "placeholders": {"host": "mysql.example.com", "port": "3306"},
        },
        "conn-fields": {
            "unix_socket": _text("Unix socket", "Path on the workers, in place of host and port"),
            "ssl_mode": {
                "label": "TLS",
                "description": "disabled, preferred (the default), required, verify_ca or "
                "verify_identity, as the mysql client means them",
                "schema": {
                    "type": ["string", "null"],
                    "enum": [None, *SSL_MODES],
                },
            },
            "ssl_ca": _text("CA certificates", "Path of a PEM file on the workers"),
            "ssl_cert": _text("Client certificate", "Path of a PEM file on the workers"),
            "ssl_key": _text("Client key", "Path of a PEM file on the workers"),
            "server_public_key_path": _text(
                "Server's public key", "Path of a PEM file on the workers; for logins without TLS"
            ),
            "get_server_public_key": _switch(
                "Take the key from the server", "Whether the server may send that key itself"
            ),
            "enable_cleartext_plugin": _switch(
                "Clear-text passwords", "Whether the server may ask for one without TLS"
            ),
            "connect_timeout": _seconds("Connect timeout", "Seconds; 10 if empty"),
            "read_timeout": _seconds(
                "Read timeout",
                "Seconds without a byte before the connection counts as lost; 60 if empty",
            ),
            "query_timeout": _seconds(
                "Query timeout", "Seconds until the answer to a statement is complete; 600 if empty"
            ),
            "server_id": {
                "label": "Replica's server id",
                "description": "A number, or a range such as 5400-5499 of which each task draws "
                "one. Drawn at random if empty; set it only where the server's administrator "
                "hands them out.",
                "schema": {"type": ["string", "null"], "pattern": r"^\s*\d+\s*(-\s*\d+\s*)?$"},
            },
            "hash_secret": {
                "label": "Secret for hashes",
                "description": "Hashes the values of the columns that hash_columns names; the same "
                "for all sources whose hashes are to be compared",
                "schema": {"type": ["string", "null"], "format": "password"},
            },
        },
    }


def _text(label: str, description: str) -> dict[str, object]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"]}}


def _switch(label: str, description: str) -> dict[str, object]:
    schema = {"type": ["boolean", "null"]}
    return {"label": label, "description": description, "schema": schema}


def _seconds(label: str, description: str) -> dict[str, object]:
    schema = {"type": ["integer", "null"], "minimum": 1, "maximum": 31536000}
    return {"label": label, "description": description, "schema": schema}
