"""The files between capture and merge: where they lie, how they are written, which count."""
