"""Events by the megabyte: where they begin, whether they are intact, their headers as columns."""
