"""One module per family of events: bytes of one event in, a frozen value out."""
