"""What a merge has to do, decided from manifests before Spark reads a row."""
