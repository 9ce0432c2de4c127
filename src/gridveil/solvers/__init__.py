"""Backends that solve the four problems of the bilevel methods."""
