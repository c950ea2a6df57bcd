"""Tests of the files in between."""
