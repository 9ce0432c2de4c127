"""Publish networks whose customer demands are differentially private, feasible and true to cost."""

__version__ = "0.1.0"
