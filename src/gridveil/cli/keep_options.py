"""Options for what a release keeps besides its cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from gridveil.core.choices import DEFAULT_BETA

if TYPE_CHECKING:
    from gridveil.core.band import Tolerance
    from gridveil.core.kept import Kept


@dataclass(frozen=True, kw_only=True)
class KeepOptions:
    """What is kept, and its targets; a command with a parameter ``kept: KeepOptions`` has them as options."""

    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            help="What is kept, and how closely: cost=1%,loss=2%,total=0.5%,zones=1%,areas=1%; zones:10 asks for ten zones "
            "of the graph. cost is --beta.",
        ),
    ] = None
    declare_public: Annotated[
        str | None,
        typer.Option(
            "--declare-public",
            help="Kept numbers (total, zones, areas, loss) whose true values are published as targets. Anyone who knows all "
            "other demands can infer the last one.",
        ),
    ] = None
    forecast: Annotated[
        list[str] | None,
        typer.Option(
            "--forecast", help="Target of a kept number: total=7300MW, loss=150MW, zones/2=810MW. Repeatable."
        ),
    ] = None
    totals_share: Annotated[
        str | None,
        typer.Option("--totals-share", help="Share of ε spent on private totals. [default: chosen from public data]"),
    ] = None


def beta_and_kept(beta: str | None, options: KeepOptions) -> tuple[Tolerance, Kept]:
    """β and all else that is kept; --beta and cost=… say the same thing, so they must agree."""
    from gridveil.core.band import Tolerance
    from gridveil.core.kept import agreed_beta, parse_keep

    declared = [name.strip() for name in (options.declare_public or "").split(",") if name.strip()]
    cost, kept = parse_keep(
        options.keep or "", declared=declared, forecasts=options.forecast or (), share=options.totals_share
    )
    agreed = agreed_beta(None if beta is None else Tolerance.parse(beta), cost)
    return agreed or Tolerance.parse(DEFAULT_BETA), kept
