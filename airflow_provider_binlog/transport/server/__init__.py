"""What a server answers to SQL: its version, setup, positions and information_schema."""
