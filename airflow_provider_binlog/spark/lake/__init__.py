"""The table formats, Delta and Iceberg, with one Protocol."""
