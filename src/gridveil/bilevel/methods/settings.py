"""Constants of the bilevel methods; all published numbers use the defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BisectionSettings:
    """Constants of Algorithm 1; distances are squared."""

    eta: float = 1e-3
    """Width of the bracket on δ at which the search ends: the paper's convergence parameter."""
    call_limit: int = 3000
    """Most calls to O↑, as in the paper."""
    failure_limit: int = 12
    """Doublings in a row that may fail before the search for a bracket ends."""
    ball_slack: float = 1e-3
    """Relative: farther inside its ball than this (more than rounding), O↑ gains nothing from a larger one."""
    probes: tuple[float, ...] = (0.5, 0.75, 0.25, 0.9)
    """Where in the bracket to look, should the middle not converge."""


@dataclass(frozen=True, kw_only=True)
class AutoSettings:
    """Constants of the method ``auto``; shares of δ unless they say otherwise."""

    check: float = 1e-3
    """How much nearer O↑ must fail to reach the band."""
    aim_inside: float = 2e-4
    """Share of √δ that the root search aims beyond its estimate, to end in the band rather than just below."""
    narrow: float = 1e-3
    """Above the high point's δ, within which O↑ has hardly any interior, and there is hardly anything to gain."""
    narrow_bracket: float = 1.5e-3
    """The same for the upper end of a bracket: its middle is nearer still."""
    small_gain: float = 1e-3
    """A polish that gains less is the last."""
    same_cut: float = 1e-5
    """What turning and shifting a cut promises, below which it is the same cut again."""
    most_cuts: int = 5
    """Cuts towards the band from below, before Algorithm 1 takes over."""
    least_gain: float = 0.5
    """Share of the cost it asked for that a cut must gain to be followed by another."""
    most_polishes: int = 8
    """Polishes in a row."""
    most_pushes: int = 40
    """Calls to O↑ in one root search."""
    most_refusals: int = 3
    """Points that a fresh solve may refuse and that are cut again, before any other point will do."""
    overshoot: float = 1.5
    """How much more than it missed by a cut asks for when it is repeated."""
    flat: float = 1e-6
    """Share of |f̃| per unit of d below which prices say nothing."""
    off_edge: float = 0.01
    """Share of β above the band's lower edge: cuts and O↑ end nearer to it, unless O jumps."""
    saturation: float = 0.01
    """Share of β below the upper edge within which the band, not the radius, limits O↑."""
    saturated_share: float = 0.25
    """Of the bracket: where the band limits O↑, its edge is usually near the lower end."""
    bisection: BisectionSettings = BisectionSettings()
    """Of Algorithm 1, where its way is gone."""
