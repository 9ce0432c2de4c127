"""Plots and HTML pages."""
