"""The table formats, Delta and Iceberg, behind one Protocol."""
