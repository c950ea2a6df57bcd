"""One merge: which tables, from which manifests, and their commits."""
