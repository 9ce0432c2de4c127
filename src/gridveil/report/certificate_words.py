"""The certificate of a release in sentences."""

from __future__ import annotations

from gridveil.bilevel.certificate import GLOBAL, Certificate
from gridveil.bilevel.result import Ending
from gridveil.core.text import number, percent
from gridveil.service.release import PublicRelease

ENDINGS = {
    Ending.NOISY_IN_BAND: "the noisy demands have their optimal cost in the band as they are",
    Ending.HIGHPOINT_IN_BAND: "its first step already gave demands with their optimal cost in the band",
    Ending.BRACKET_CLOSED: "the distance could not be narrowed down any further",
    Ending.POLISHED: "no step brought the demands nearer to the noisy ones",
    Ending.CALL_LIMIT: "the limit on the number of solves was reached; the best demands so far were kept",
    Ending.TIME_LIMIT: "the time limit was reached; the best demands so far were kept",
    Ending.BRACKET_STUCK: "no further solve converged; the best demands so far were kept",
    Ending.ANCHORED: "demands were found between its first step and public ones that cost enough",
}


def certificate_words(release: PublicRelease) -> list[str]:
    """Describe what was verified, what is proved about cost and distance, and how the search ended."""
    result, target, unit = release.released.result, release.target, release.cost_unit
    words = [
        "The optimal cost of the released network was computed afresh, from public starting points, and again from the "
        f"written file: {number(result.cost, 6)} {unit}, in the band from {number(target.lower, 6)} to "
        f"{number(target.upper, 6)} {unit}.",
        _cost_words(release.certificate, unit),
        _distance_words(release.certificate, result.delta),
        f"The search ended because {ENDINGS.get(result.ending, result.ending.value)}.",
    ]
    if not result.monotonicity.holds:
        words.append(
            "Somewhere along the search the cost fell while demands grew, by "
            f"{percent(result.monotonicity.worst_violation)} of the target: the assumption that cost grows with demand "
            "does not hold exactly here. The result is verified nevertheless."
        )
    return words


def _cost_words(certificate: Certificate, unit: str) -> str:
    if certificate.band == GLOBAL:
        return (
            f"Certified globally: a convex relaxation ({certificate.relaxation}) proves that no dispatch of the released "
            f"network costs less than {number(certificate.cost_lower_bound, 6)} {unit}, and the dispatch that was found is "
            "feasible. So the optimal cost lies in the band for certain, whatever solver is used."
        )
    if certificate.cost_lower_bound is not None:
        return (
            "Certified locally only: the problem is not convex, and the best bound that is proved "
            f"({certificate.relaxation}) is {number(certificate.cost_lower_bound, 6)} {unit}, below the band. A cheaper "
            "dispatch than the one found cannot be ruled out, though no start led to any."
        )
    return (
        "Certified locally only: the problem is not convex, and no relaxation is available that would prove more. A "
        "cheaper operating point than the one found cannot be ruled out, though no start led to any."
    )


def _distance_words(certificate: Certificate, delta: float) -> str:
    start = f"The squared distance to the noisy demands is {number(delta)} (per unit)"
    if not delta:
        return "The noisy demands themselves were released: nothing nearer is possible."
    if certificate.distance_lower_bound and certificate.gap is not None:
        return (
            f"{start}. It is proved that no demands with their cost in the band are nearer than "
            f"{number(certificate.distance_lower_bound)}; the gap is {percent(certificate.gap)}."
        )
    if certificate.local_distance_bound is None:
        return f"{start}. There is no bound on how near a release could come."
    return (
        f"{start}. How near a release could come is not proved; the high-point relaxation, solved locally, gives "
        f"{number(certificate.local_distance_bound)}."
    )
