"""Run plain MERGEs, which a merge of few changes is measured beside, as a Spark application.

    spark-submit bare_merges.py '{"format": "iceberg", "targets": ["lake.shop.t1"], "settings": …}'

One statement for each table, of two literal rows, some tables at a time. It knows beforehand what
is to be changed, reads no state and checks nothing.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession

_ROW = (
    "(CAST({key} AS BIGINT), {number}, '{name}', 'one@example.com', CAST(NULL AS DECIMAL(12, 2)),"
    " CAST(NULL AS INT), CAST(NULL AS TIMESTAMP_NTZ), CAST(NULL AS TIMESTAMP))"
)
_COLUMNS = "id, quantity, name, mail, amount, level, changed, seen"


def main(given: dict[str, Any]) -> None:
    """Start Spark and run the statements."""
    number = given["number"]
    spark = SparkSession.builder.appName("bare merges").getOrCreate()

    def merge(target: str) -> None:
        session = spark.newSession()
        for name, value in given["settings"].items():
            session.conf.set(name, value)
        keys = 1, 10 + number
        rows = ", ".join(_ROW.format(key=key, number=number, name=f"{key}") for key in keys)
        session.sql(
            f"MERGE INTO {target} t USING (SELECT * FROM VALUES {rows} AS v ({_COLUMNS})) s"
            " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    with ThreadPoolExecutor(given["threads"]) as pool:
        list(pool.map(merge, given["targets"]))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
