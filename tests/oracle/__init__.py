"""What is captured equals what SELECT returns: generated tables and writes on real servers.

    python -m tests.oracle --seed 7 --server mysql97 --image MINIMAL

replays one run; `settings.py` lists what can be set, and which combinations `make test` covers.
"""
