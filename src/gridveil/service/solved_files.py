"""An operating point as files: CSV or Parquet tables, or a solved MATPOWER case. Those of true demands say so."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml

from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.privacy.curator import Curator, CuratorSolution
from gridveil.sectors.case import Case
from gridveil.sectors.registry import build_model, sector_of
from gridveil.service.public_files import CARD_FILE

if TYPE_CHECKING:
    import pandas as pd

STAMP = "NOT PRIVATE: from true demands"
STAMPED_TITLE, TITLE = "NOT_PRIVATE_true_demands", "solved_case"
TABLES = (".csv", ".parquet")
MATPOWER = ".m"


def demands_are_public(source: str) -> bool:
    """Whether a case's demands are known to be public: those of a built-in name, or of a file that a release's card lists."""
    path = Path(source)
    if not path.exists():
        return True
    card = path.parent / CARD_FILE
    try:
        facts = yaml.safe_load(card.read_text(encoding="utf-8"))
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        listed = any(one["file"] == path.name and one["sha256"] == content for one in facts["files"])
        return listed and facts["simulation"] is False
    except (OSError, KeyError, TypeError, UnicodeDecodeError, yaml.YAMLError):
        return False


def refuse_ending(path: Path) -> None:
    """Refuse a file of an unknown kind, before anything is solved."""
    if path.suffix.lower() not in (*TABLES, MATPOWER):
        raise InputError(f"{path}: name a file that ends in {', '.join(TABLES)} (tables) or {MATPOWER} (a solved case)")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; create it, or name another file")


def write_solution(
    case: Case, solution: CuratorSolution, formulation: Formulation, path: Path, *, public: bool
) -> list[str]:
    """Write an operating point and list the files; ``public`` says that the demands are no secret.

    Tables go to one file each, NAME-generators.csv and so on: dispatch, buses or junctions, flows, and prices at the sites.
    """
    if path.suffix.lower() == MATPOWER:
        title = TITLE if public else STAMPED_TITLE
        Curator(case).write_solved(solution, formulation, path, title=title)
        return [str(path)]
    files = []
    for name, frame in solution_tables(case, solution, formulation).items():
        shown = frame if public else frame.assign(stamp=STAMP)
        file = path.with_name(f"{path.stem}-{name}{path.suffix}")
        if path.suffix.lower() == ".csv":
            shown.to_csv(file, index=False)
        else:
            shown.to_parquet(file, index=False)
        files.append(str(file))
    return files


def solution_tables(case: Case, solution: CuratorSolution, formulation: Formulation) -> dict[str, pd.DataFrame]:
    """The operating point in physical units, and what one more unit of each served site's demand would cost."""
    import pandas as pd

    tables = dict(sector_of(case.network).solution_frames(case.network, formulation, solution.x))
    served = build_model(case.network, formulation).layout.served
    if len(solution.prices) >= int(served.sum()):
        places = np.array(case.field.places, dtype=object)[served]
        price = solution.prices[: len(places)] / case.field.base
        unit = f"{solution.cost_unit} per {sector_of(case.network).value_parts[0].unit}"
        tables["prices"] = pd.DataFrame({"site": places, "price": price, "unit": unit})
    return tables
