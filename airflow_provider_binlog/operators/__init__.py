"""The tasks of the main job: extract, merge, checkpoint."""
