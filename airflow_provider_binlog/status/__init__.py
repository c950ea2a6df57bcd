"""What a person sees of a source: values, read from its staged files."""
