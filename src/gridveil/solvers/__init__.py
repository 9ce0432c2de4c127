"""Solver backends for the four problems of the bilevel methods."""
