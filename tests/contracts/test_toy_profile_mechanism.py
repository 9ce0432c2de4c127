"""Noise on profiles from outside: made against the public contract only, registered, and used in a series."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd

import gridveil
from gridveil.privacy import mechanisms
from gridveil.privacy.mechanisms.profile import ProfileMechanism


class WideBox(ProfileMechanism):
    """Uniform noise over a wide box: an example of the contract, and no mechanism to rely on."""

    name = "wide box"
    proof_note = "none: an example"
    rounding = None
    half_width = 4000

    @property
    def expected_square(self):
        return self.dimension * self.half_width**2 / 3 * float(self.step) ** 2

    def noise(self, count):
        generator = np.random.default_rng(list(self.entropy.read(16)))
        shape = (self.basis.blocks, count, self.dimension)
        return generator.integers(-self.half_width, self.half_width, shape, endpoint=True)


def test_a_series_can_name_it(monkeypatch):
    monkeypatch.setitem(mechanisms.PROFILE_MECHANISMS, "box", WideBox)
    case = gridveil.load("veil9")
    sites = case.case.field.places
    frame = pd.DataFrame({"timestamp": [0, 1], **{site: [20.0, 25.0] for site in sites}})
    made = case.release_series(
        frame,
        protects="profile",
        epsilon=1,
        alpha="1MVA",
        beta="5%",
        seed=1,
        noise="box",
        basis="hours",
        power_factor=0.95,
    )
    assert made.card["mechanism"]["name"] == "wide box" and made.card["hours_verified"] == 2
    released = made._release.draw.values
    step = float(Fraction(1, 2**17))
    np.testing.assert_array_equal(
        np.round(released.real / step), released.real / step
    )  # on the lattice of the contract
