"""CGMES archives, through pandapower's converter: from there on they are pandapower networks."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gridveil.core.errors import InputError
from gridveil.core.extras import optional_package
from gridveil.core.graph import components

CGMES = (".zip",)
EXTRA = "cgmes"
NO_LIMIT = 1e15  # MW, MVAr or MVA


def pandapower_file(path: Path, scratch: Path) -> tuple[Path, list[str]]:
    """Convert an archive of CGMES profiles to a pandapower file, and say what was completed."""
    converter = optional_package("pandapower.converter.cim.cim2pp.from_cim", EXTRA)
    logging.getLogger("pandapower").setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = converter.from_cim(file_list=[str(path)])
    except Exception as error:
        # Whatever the package raises: its message may quote the content.
        raise InputError(
            f"{path}: pandapower cannot read it as CGMES ({type(error).__name__}); give one archive with the profiles EQ, SSH, "
            "TP and SV"
        ) from None
    notes = [
        "CGMES: converted by pandapower, and released as a pandapower file",
        *_join_buses(net),
        *_choose_slack(net),
    ]
    for column in net.gen.select_dtypes("floating"):  # files write the largest number there is, which no reader takes
        net.gen[column] = net.gen[column].where(net.gen[column].abs() < NO_LIMIT)
    target = scratch / "cgmes.json"
    optional_package("pandapower", EXTRA).to_json(net, str(target))
    return target, notes


def _join_buses(net: Any) -> list[str]:
    """Fuse the buses that closed switches join; an open switch between two buses joins nothing."""
    between = net.switch[net.switch.et == "b"]
    if between.empty:
        return []
    closed = between[between.closed.astype(bool)]
    place = {bus: k for k, bus in enumerate(net.bus.index)}
    start, end = (np.array([place[bus] for bus in column], dtype=np.int64) for column in (closed.bus, closed.element))
    group = components(len(place), start, end)
    net.switch = net.switch.drop(between.index)
    toolbox = optional_package("pandapower.toolbox", EXTRA)
    buses = np.array(net.bus.index)
    for members in (buses[group == number] for number in np.flatnonzero(np.bincount(group) > 1)):
        toolbox.fuse_buses(net, members[0], list(members[1:]))
    return [
        f"{len(closed)} closed switches between buses: the buses they join are merged; {len(between) - len(closed)} open"
    ]


def _choose_slack(net: Any) -> list[str]:
    """Make one generator the reference where none is: the first by priority, else the largest."""
    if len(net.ext_grid) or net.gen.slack.astype(bool).any() or net.gen.empty:
        return []
    stated = net.gen[net.gen.in_service.astype(bool)]
    first = stated[stated.referencePriority > 0] if "referencePriority" in stated else stated.iloc[:0]
    chosen = first.referencePriority.idxmin() if len(first) else stated.max_p_mw.idxmax()
    net.gen.loc[chosen, "slack"] = True
    return [f"no generator is the slack: generator {net.gen.index.get_loc(chosen) + 1} is taken"]
