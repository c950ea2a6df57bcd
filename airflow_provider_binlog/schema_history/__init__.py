"""The schema that a row was logged with, and the identity of its table and columns.

`schemas.py` completes the TABLE_MAPs of a range: with the schemas that `partial_schemas.py` carries
forward from manifests, snapshots and CREATE TABLE, else with those of `server_schemas.py`.
`statements.py` finds the statements of a log; what each does is read in `sql/`.
"""
