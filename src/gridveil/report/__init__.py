"""Plots and pages: what people look at."""
