"""Tests, and the services they and the demo run on."""
