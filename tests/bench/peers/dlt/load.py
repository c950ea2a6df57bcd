"""Load one table with dlt into Parquet files: `load.py PORT DATABASE TABLE FOLDER BACKEND`."""

import json
import sys

import dlt
from dlt.sources.sql_database import sql_table


def main(port: str, database: str, table: str, folder: str, backend: str) -> None:
    """Replace what the folder has; typed as reflected from the source, where it can be."""
    address = f"root@127.0.0.1:{port}/{database}"
    resource = sql_table(
        credentials=f"mysql+pymysql://{address}",
        table=table,
        schema=database,
        backend=backend,
        backend_kwargs={"conn": f"mysql://{address}"} if backend == "connectorx" else {},
        reflection_level="full_with_precision",
        chunk_size=100_000,
    )
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=f"{folder}/state",
        destination=dlt.destinations.filesystem(f"file://{folder}/lake"),
        dataset_name="bench",
    )
    pipeline.run(resource, loader_file_format="parquet", write_disposition="replace")
    counts = pipeline.last_trace.last_normalize_info.row_counts
    rows = sum(count for name, count in counts.items() if not name.startswith("_dlt"))
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
