"""Datasets of tasks for OpenLineage: tables of the source, what is staged of them, lake tables.

Names follow OpenLineage's naming of datasets: `mysql://host:port` and `shop.orders` for a table of
the source, `s3://bucket` and the key of the folder for its staged parts and for a Delta table in a
folder, `iceberg://catalog` and `shop.orders` for a table in a catalog.

Nothing of OpenLineage is imported before its provider asks a task for its datasets. That may be in
a forked process, which cannot reach Airflow: what it needs, the task has noted by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.hooks.object_storage import spark_location
from airflow_provider_binlog.hooks.tasks import common_location, locate_target
from airflow_provider_binlog.names import split_table_name
from airflow_provider_binlog.schema import Field, TableName
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import Snapshots, StoredFiles, table_folder

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import OutputDataset

    from airflow_provider_binlog.manifest import Manifest

Dataset: TypeAlias = tuple[str, str]
"""Namespace and name."""

_HASH = {
    "type": "DIRECT",
    "subtype": "TRANSFORMATION",
    "description": "HMAC-SHA-256",
    "masking": True,
}
_SAME = {"type": "DIRECT", "subtype": "IDENTITY"}


@dataclass(frozen=True)
class StagedTable:
    """Newest columns of a staged table, and how many rows are staged."""

    fields: tuple[Field, ...] = ()
    rows: int = 0


@dataclass
class StagedLineage:
    """Tables that a task staged, and where.

    Attributes:
        address: `host:port` of the server; None for binlog files, which have no tables to name.
    """

    source: str
    staging_path: str
    address: str | None
    tables: dict[TableName, StagedTable] = field(default_factory=dict)

    def add(self, manifests: Iterable[Manifest]) -> None:
        """Count what manifests hold."""
        for manifest in manifests:
            for table in manifest.tables:
                if table.parts:
                    fields = table.schema(table.parts[-1].schema).fields
                    self.add_table(table.name, fields, table.rows)

    def add_table(self, name: TableName, fields: tuple[Field, ...], rows: int) -> None:
        """Count what is staged of a table."""
        before = self.tables.get(name, StagedTable())
        self.tables[name] = StagedTable(fields, before.rows + rows)

    def describe(self) -> OperatorLineage[Any, Any]:
        """Return the tables of the source as inputs, and what is staged of them as outputs."""
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import InputDataset

        inputs, outputs = [], []
        for name, table in self.tables.items():
            facets: dict[str, Any] = {"schema": _describe_columns(table.fields)}
            if self.address is not None:
                read = f"mysql://{self.address}", ".".join(name)
                inputs.append(InputDataset(*read, facets=dict(facets)))
                facets["columnLineage"] = _describe_origins(table.fields, *read)
            staged = staged_dataset(self.staging_path, self.source, name)
            outputs.append(_describe_output(staged, table.rows, facets))
        return OperatorLineage(inputs=inputs, outputs=outputs)


class StagesTables:
    """Base of operators that stage tables; OpenLineage asks it for these."""

    lineage: StagedLineage | None = None

    def get_openlineage_facets_on_complete(self, _: Any) -> OperatorLineage[Any, Any] | None:
        """Return the tables that were read, and what is staged of them; None if nothing is."""
        return None if self.lineage is None else self.lineage.describe()


def is_enabled() -> bool:
    """Whether Airflow sends the datasets of tasks anywhere."""
    try:
        from airflow.providers.openlineage.conf import is_disabled
    except ImportError:
        return False
    return not is_disabled()


Columns: TypeAlias = Mapping[TableName, tuple[Field, ...]]
"""Columns of tables, by the tables' names, which a report has as texts."""

_MANIFESTS_MAX = 20


def find_columns(store: ObjectStore, report: Mapping[str, Any]) -> Columns:
    """Return the columns that the merged tables have by the newest manifests, and by snapshots.

    Of a table that older manifests alone name nothing is returned; nor if one is unreadable.
    """
    missing = {table["table"]: table for table in report["tables"] if table["status"] == "merged"}
    log, snapshots = (
        ManifestLog(store, report["source"]),
        Snapshots(StoredFiles(store, report["source"])),
    )
    found: dict[TableName, tuple[Field, ...]] = {}
    oldest = min((table["applied_before"]["sequence"] for table in missing.values()), default=0)
    last = report["through"]
    try:
        for sequence in range(last, max(oldest, last - _MANIFESTS_MAX), -1):
            for table in log.load(sequence).tables:
                schema = table.state.schema
                if schema is not None and missing.pop(".".join(table.name), None):
                    found[table.name] = schema.fields
            if not missing:
                return found
        for text, table in missing.items():
            if table.get("snapshot"):
                taken = snapshots.read(table["snapshot"])
                # The table may have been renamed since.
                is_same = text == ".".join(taken.name)
                found[taken.name if is_same else split_table_name(text)] = taken.schema.fields
    except BinlogError:
        return {}
    return found


def describe_merge(
    report: Mapping[str, Any],
    staging_path: str,
    lake: str,
    columns: Columns,
    database: Dataset | None = None,
) -> OperatorLineage[Any, Any]:
    """Return what was staged of the merged tables as inputs, and their lake tables as outputs.

    Args:
        report: That of the merge.
        staging_path: That of its source.
        lake: The format of the lake.
        columns: Those of the merged tables, as far as they are known.
        database: The database of PostgreSQL tables; None for other formats.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset

    names = {".".join(name): name for name in columns}
    inputs, outputs = [], []
    for table in report["tables"]:
        if table["status"] != "merged":
            continue
        name = names.get(table["table"]) or split_table_name(table["table"])
        staged = staged_dataset(staging_path, report["source"], name)
        facets: dict[str, Any] = {}
        if (fields := columns.get(name)) is not None:
            facets["schema"] = _describe_columns(fields)
        inputs.append(InputDataset(*staged, facets=dict(facets)))
        if fields is not None:
            # Hashed values are staged as such.
            same = [replace(own, hashed=None) for own in fields]
            facets["columnLineage"] = _describe_origins(same, *staged)
        rows = sum(count or 0 for count in table["rows"].values())
        target = lake_dataset(table["target"], lake, database)
        outputs.append(_describe_output(target, rows, facets))
    return OperatorLineage(inputs=inputs, outputs=outputs)


def staged_dataset(staging_path: str, source: str, name: TableName) -> Dataset:
    """Return namespace and name of what is staged of a table."""
    root = spark_location(staging_path).rstrip("/")
    return _split_location(f"{root}/{table_folder(source, *name)}")


def lake_dataset(target: str, lake: str, database: Dataset | None = None) -> Dataset:
    """Return namespace and name of a lake table that SQL names so; see `describe_merge`."""
    location = locate_target(target)
    if database is not None:
        namespace, own = database
        return namespace, f"{own}.{location}"
    if lake == "iceberg":
        catalog, _, name = location.partition(".")
        return f"iceberg://{catalog}", name
    is_folder = target.startswith("delta.`")
    return _split_location(location) if is_folder else ("delta://spark_catalog", location)


def _split_location(location: str) -> Dataset:
    parts = urlsplit(common_location(location))
    if parts.scheme in ("", "file"):
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def _describe_output(dataset: Dataset, rows: int, facets: dict[str, Any]) -> OutputDataset:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

    counts = statistics.OutputStatisticsOutputDatasetFacet(rowCount=rows)
    return OutputDataset(*dataset, facets=facets, outputFacets={"outputStatistics": counts})


def _describe_columns(fields: Iterable[Field]) -> Any:
    from openlineage.client.facet_v2 import schema_dataset

    return schema_dataset.SchemaDatasetFacet(
        fields=[
            schema_dataset.SchemaDatasetFacetFields(
                name=own.name, type=own.mysql_type, description=own.comment or None
            )
            for own in fields
        ]
    )


def _describe_origins(fields: Iterable[Field], namespace: str, name: str) -> Any:
    from openlineage.client.facet_v2 import column_lineage_dataset as origins

    def describe(own: Field) -> Any:
        how = origins.Transformation(**(_SAME if own.hashed is None else _HASH))
        return origins.Fields([origins.InputField(namespace, name, own.name, [how])])

    return origins.ColumnLineageDatasetFacet(fields={own.name: describe(own) for own in fields})
