"""A backlog: one range in sub-ranges, which tasks stage at the same time."""
