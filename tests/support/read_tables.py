"""An application of Spark that writes tables of its catalog to Parquet files: TABLE FILE ..."""

from __future__ import annotations

import sys

import pyarrow.parquet
from pyspark.sql import SparkSession

if __name__ == "__main__":
    session = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    for table, file in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        pyarrow.parquet.write_table(session.table(table).toArrow(), file)
