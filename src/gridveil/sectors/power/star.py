"""Three-winding transformers as three two-winding ones around a star point."""

from __future__ import annotations


def star_legs(z12: complex, z23: complex, z31: complex) -> tuple[complex, complex, complex]:
    """Impedances of legs 1, 2 and 3, such that legs i and j in series have the pair impedance z_ij."""
    return (z12 + z31 - z23) / 2, (z12 + z23 - z31) / 2, (z23 + z31 - z12) / 2
