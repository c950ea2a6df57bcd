"""What tests and the demo run on: the environment, servers, a store, Java, jars.

Only the standard library is imported here, because `make venv` runs this package
before there is an environment. Everything is started without root and without docker,
from the ordinary package registries of the machine, and cached outside the tree.
"""
