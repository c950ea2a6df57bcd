"""JSON of MySQL in lock-step: many binary documents in, the text that SELECT prints out."""
