"""A mechanism: gridveil's exact Laplace noise on a coarser lattice. A larger step leaves the proof as it is."""

from __future__ import annotations

from gridveil.privacy.mechanisms.exact_sampling import suggested_step
from gridveil.privacy.mechanisms.planar_laplace import PlanarLaplace
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace

COARSER = 16


def coarse_laplace(field, epsilon, alpha, entropy):
    """Make the noise for a field: planar for complex values, scalar for real ones."""
    kind = PlanarLaplace if field.is_complex else ScalarLaplace
    step = COARSER * suggested_step(epsilon=epsilon, alpha=alpha)
    return kind(epsilon=epsilon, alpha=alpha, step=step, entropy=entropy)
