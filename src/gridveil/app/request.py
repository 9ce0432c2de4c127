"""What a steward asks for in the app: plain values of a form, and the same as settings, command line, script or study."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode, DemandBounds, Names
from gridveil.core.errors import InputError
from gridveil.core.methods import Method
from gridveil.core.quantity import parse_distance
from gridveil.core.secret import SecretField
from gridveil.privacy.mechanisms.exact_sampling import positive_fraction
from gridveil.sectors.case import Case
from gridveil.sectors.gas.boundary import stated_boundary
from gridveil.sectors.registry import load_case
from gridveil.sectors.sites import AS_STATED, SiteKind, site_rule
from gridveil.service.publication import Publication
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

AS_FILE, ALL_SITES = SiteKind.ROWS.value, SiteKind.ALL.value
USUAL_SHARE = "1%"
LONGEST = 4096  # characters of a field: a path, at most


@dataclass(frozen=True, kw_only=True)
class ReleaseRequest:
    """The fields of the form, as text; an empty text is a field that was left out."""

    source: str
    """A path, or a built-in name."""
    sites: str = AS_FILE
    """As the file states them, all, or the path of a list."""
    names: str = Names.PSEUDONYMS.value
    preset: str = ""
    dataset: str = ""
    epsilon: str = "1"
    alpha: str = ""
    beta: str = "1%"
    target: str = CostTargetMode.PRIVATE.value
    forecast: str = ""
    bounds: str = DemandBounds.NONE.value
    method: str = Method.AUTO.value
    budget: str = ""
    """Cap on total ε, where the data set has no ledger yet."""
    reuse: str = ""
    """Name of an earlier release whose draw is used again, at no cost and with its promise."""
    publisher: str = ""
    contact: str = ""
    licence: str = ""
    title: str = ""
    """What the card calls the network; a file's own name is not published."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ReleaseRequest:
        """Read back what ``plain`` has written; fields that are not known are left out."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: str(value)[:LONGEST] for name, value in values.items() if name in known})

    def plain(self) -> dict[str, str]:
        """All fields as text. Nothing of them is secret."""
        return asdict(self)

    def load(self) -> Case:
        """Read the case."""
        options = Names.KEEP if self.names == Names.KEEP.value else None
        boundary = _boundary(self.preset) if self.preset else None
        rule = AS_STATED if self.sites == AS_FILE else site_rule(self.sites)
        return load_case(self.source, boundary or options, sites=rule)

    def settings(self, field: SecretField) -> ReleaseSettings:
        """The settings of a release; InputError says which field to correct."""
        parse_distance(self.alpha, field)
        mode = CostTargetMode(self.target)
        if not self.beta.strip().endswith("%") and not _is_amount(self.beta):
            raise InputError("beta must be a share such as 1% or an amount with its unit; correct it")
        return ReleaseSettings(
            epsilon=self.epsilon.strip(),
            alpha=self.alpha.strip(),
            beta=Tolerance.parse(self.beta),
            target=CostTargetSettings(
                mode=mode, forecast=_number(self.forecast) if mode is CostTargetMode.FORECAST else None
            ),
            method=Method(self.method),
            demand_bounds=DemandBounds(self.bounds),
        )

    def publication(self) -> Publication:
        """What the publisher states on the card."""
        built_in = None if Path(self.source).exists() else self.source
        return Publication(
            publisher=self.publisher.strip() or None,
            contact=self.contact.strip() or None,
            licence=self.licence.strip() or None,
            network=self.title.strip() or built_in,
        )

    def _statements(self) -> dict[str, str]:
        texts = {name: getattr(self, name).strip() for name in ("publisher", "contact", "licence", "title")}
        return {name: text for name, text in texts.items() if text}

    def cap(self) -> str | None:
        """The cap for a new ledger, checked."""
        if not self.budget.strip():
            return None
        positive_fraction(self.budget.strip(), "the budget")
        return self.budget.strip()

    def options(self) -> dict[str, str]:
        """Every option of ``gridveil release`` that differs from its default, in the order of the form."""
        target = {"forecast": {"cost-target": "forecast", "forecast-cost": self.forecast}}
        mode = {} if self.target == CostTargetMode.PRIVATE.value else {"cost-target": self.target}
        promise = {"epsilon": self.epsilon.strip(), "alpha": self.alpha.strip(), "budget": self.budget.strip()}
        chosen = {
            **({"reuse": self.reuse} if self.reuse else promise),
            "beta": self.beta.strip(),
            **target.get(self.target, mode),
            "demand-bounds": "" if self.bounds == DemandBounds.NONE.value else self.bounds,
            "method": "" if self.method == Method.AUTO.value else self.method,
            "sites": "" if self.sites == AS_FILE else self.sites,
            "names": "keep" if self.names == Names.KEEP.value else "",
            "preset": self.preset,
            "dataset": self.dataset,
        }
        return {name: value for name, value in chosen.items() if value}

    def command(self, out: str) -> str:
        """The same release on the command line."""
        words = ["gridveil", "release", self.source]
        for name, value in (self.options() | self._statements()).items():
            words += [f"--{name}", value]
        return shlex.join([*words, "--out", out])

    def script(self, out: str) -> str:
        """The same release in Python."""
        stated = "".join(f", {name}={text!r}" for name, text in self._statements().items())
        loading = {"sites": "sites", "names": "names", "preset": "preset"}
        options = self.options()
        loads = "".join(f", {word}={options[name]!r}" for name, word in loading.items() if name in options)
        rest = [(name.replace("-", "_"), value) for name, value in options.items() if name not in loading]
        lines = "".join(f"    {name}={value if name == 'forecast_cost' else repr(value)},\n" for name, value in rest)
        return (
            '"""Release a network with private demands, as it was set up in the gridveil app."""\n\n'
            f"import gridveil\n\ncase = gridveil.load({self.source!r}{loads})\n"
            f"release = case.release(\n{lines})\nrelease.save({out!r}{stated})\n"
        )

    def study(self, network: str, field: SecretField) -> str:
        """A study of the same parameters on the released network, whose demands are public."""
        alpha = float(parse_distance(self.alpha, field))
        beta = self.beta.strip() if Tolerance.parse(self.beta).relative else USUAL_SHARE  # a study takes shares alone
        return (
            "# Simulated releases of a published network, with the parameters of its own release.\n"
            "# Run beside the released network: gridveil study run study.toml --out results\n"
            f'name = "released"\nepsilon = {float(Fraction(self.epsilon)):g}\n'
            f'methods = ["{self.method}"]\nseeds = 50\n\n'
            f'[[grid]]\nalpha = ["{alpha:.6g}pu"]\nbeta = ["{beta}"]\n\n'
            f"[[network]]\ncase = {json.dumps(network)}\n"
        )


def _boundary(preset: str) -> Any:
    return stated_boundary(preset=preset, slack=[], sound_speed=None, flow_base=None, demand_unit=None)


def _is_amount(text: str) -> bool:
    return re.fullmatch(r"\s*\d+(\.\d+)?\s*\S+.*", text) is not None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError("the forecast cost must be a number; correct it") from None
