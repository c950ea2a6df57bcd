"""The schema of the past: how a table looked when a row of it was logged.

`schemas.py` tells it where the log leaves it out: `history.py` goes from the server's catalogue of
today back to the row, and from what was staged last forward to it; `completion.py` puts what comes
out into the TABLE_MAP, if exactly one table fits.

`shapes.py` does and undoes a statement on a table's shape, of columns with their `facts.py`. What a
statement does is read in `sql/`; `later_statements.py` finds those after the range.
"""
