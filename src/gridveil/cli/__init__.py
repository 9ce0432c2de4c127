"""The command line."""

from gridveil.cli.main import main

__all__ = ["main"]
