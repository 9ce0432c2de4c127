"""The command line: parses, calls, prints."""

from gridveil.cli.main import main

__all__ = ["main"]
