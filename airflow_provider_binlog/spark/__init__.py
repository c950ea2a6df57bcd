"""The merge: staged changes become Delta or Iceberg tables.

Ships to Spark alone. Of this package it imports only the contracts (errors, changes, position,
manifest); of others only pyspark, which the cluster has.
"""
