"""What is captured equals what SELECT returns: generated tables and writes on real servers.

    python -m tests.oracle --only mysql97-MINIMAL-MIXED-partial --seed 7 --statements 250 --ranges 4

replays one run, whose command line every failure ends with. A combination is named as in
`settings.py`, which lists what can be set, and which combinations `make test` covers.
"""
