"""The schema of the past: how a table looked when a row of it was logged.

`schemas.py` finds it where the log leaves it out, and `past.py` queries what it takes: `history.py`
follows the statements from the server's information_schema of today back to the row, and from what
was staged last forward to it; `completion.py` puts the result into the TABLE_MAP, if exactly one
table fits.

`partial_schemas.py` applies and reverses a statement on a table's schema as far as it is known, of
columns with their `facts.py`. What a statement does is read in `sql/`; `ddl_reader.py` finds the
statements of a log, in the range and after it.
"""
