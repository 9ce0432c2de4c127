"""Helpers for tests of gridveil and of extensions; not imported by gridveil itself."""
