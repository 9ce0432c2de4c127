"""A black-box audit of noise on profiles: how well one linear statistic tells two neighbouring profiles apart.

It sees draws alone, so broken mechanisms can be audited as well. The event is chosen on one half of the draws and counted on
the other; the bound holds with a confidence of 99.9 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

CONFIDENCE = 0.0005  # for either of two bounds

Draw = Callable[[NDArray[np.complex128]], NDArray[np.complex128]]


def epsilon_seen(
    draw: Draw, move: NDArray[np.complex128], *, count: int, delta: float = 0.0, base: float = 0.0
) -> float:
    """A lower bound on the loss of a draw for one participant's profile ``base`` against ``base + move``, shape (hours,).

    All ``count`` participants of one draw have the same profile, so that one draw gives as many samples. The statistic is
    the inner product with the move, which is the best linear one for independent noise, and which finds reused noise.
    """
    seen = [(np.conj(move) @ draw(np.tile(profile[:, None], count))).real for profile in (base + 0 * move, base + move)]
    half = count // 2
    threshold = _best_threshold(seen[0][:half], seen[1][:half])
    rare, often = (int((values[half:] >= threshold).sum()) for values in seen)
    n = count - half
    high = 1.0 if rare == n else float(beta.ppf(1 - CONFIDENCE, rare + 1, n - rare))
    low = 0.0 if often == 0 else float(beta.ppf(CONFIDENCE, often, n - often + 1))
    return math.log(max(low - delta, 1e-300) / high)


def _best_threshold(null: NDArray[np.float64], moved: NDArray[np.float64]) -> float:
    """The threshold with the largest ratio of counts, smoothed so that a few lucky draws do not decide."""
    candidates = np.quantile(np.concatenate([null, moved]), np.linspace(0.02, 0.98, 97))
    ratios = [((moved >= t).sum() + 1) / ((null >= t).sum() + 20) for t in candidates]
    return float(candidates[int(np.argmax(ratios))])
