"""An example of a package that extends gridveil by entry points."""
