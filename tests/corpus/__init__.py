"""Small binlogs that real servers wrote, one per feature, and what the server says of each."""
