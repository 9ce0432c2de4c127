"""Noise with a proof: exact samplers on public lattices."""
