"""The schema of the past: how a table looked when a row of it was logged.

`schemas.py` tells it where the log leaves it out: it takes the server's catalogue of today, and
undoes on `shapes.py` what the statements since then did. `words.py`, `statements.py`,
`table_changes.py` and `alterations.py` read the statements.
"""
