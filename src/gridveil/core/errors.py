"""Errors that gridveil raises on purpose, each with the exit code of the command line."""


class GridveilError(Exception):
    """Base of all errors raised on purpose. The message is one line: what is wrong, where, and what to do."""

    exit_code = 1


class InputError(GridveilError):
    """The input cannot be used as it is."""

    exit_code = 2


class NoReleaseError(GridveilError):
    """The input is fine, but no verified release exists or was found."""

    exit_code = 3
