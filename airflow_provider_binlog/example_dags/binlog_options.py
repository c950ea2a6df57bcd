"""One database whose tables are kept in different ways, each as its readers need it.

Besides the connections of `binlog_to_lake` it needs a secret for hashes, in the field `hash_secret`
of `binlog_default`.
"""

from __future__ import annotations

from airflow_provider_binlog import BinlogSource, TableOptions, binlog_to_lake_dag, delta_conf

binlog_to_lake_dag(
    "binlog_options",
    BinlogSource("shop_options", start="now"),
    schedule="*/5 * * * *",
    tables=["shop.*"],
    staging_path="s3://lake_s3@lake/staging",
    format="delta",
    lake="s3://lake/as_wanted",
    options={
        "*": TableOptions(properties={"delta.enableChangeDataFeed": "true"}, comments=True),
        "shop.customers": TableOptions(exclude_columns=("password",), hash_columns=("email",)),
        "shop.orders": TableOptions(deletes="soft", metadata=True, cluster_by=("customer_id",)),
        "shop.prices": TableOptions(mode="history"),
        "shop.visits": TableOptions(mode="multiset"),
    },
    merge={"conf": delta_conf()},
)
