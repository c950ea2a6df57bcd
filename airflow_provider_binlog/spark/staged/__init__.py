"""The staged files as Spark reads them: manifests, parts, types, row images."""
