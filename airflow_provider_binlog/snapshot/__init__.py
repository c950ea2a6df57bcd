"""Snapshots of tables: read in chunks with SELECT while capture continues, staged as parts."""
