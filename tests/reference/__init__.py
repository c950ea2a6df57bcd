"""Plain decoders of one event, row or value at a time: the package's are tested against them."""
