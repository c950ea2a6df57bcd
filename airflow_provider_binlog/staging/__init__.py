"""The staged files between capture and merge: paths, manifests, object store, Parquet writer."""
