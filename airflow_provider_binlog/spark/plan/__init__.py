"""Plans of a merge, made from manifests before Spark reads a row."""
