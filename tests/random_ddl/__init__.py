"""Random DDL between random writes on a real server, merged range by range into a lake.

After every range each lake table equals what SELECT returns, or the merge has refused the table for
a reason that the documentation lists. `python -m tests.random_ddl` runs seed after seed.
"""
