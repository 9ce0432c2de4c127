"""The measuring process: ``python -m gridveil.benchmark.worker REQUEST REPORT`` (JSON, and the file to keep up to date)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gridveil.benchmark.contestant import NotApplicableError
from gridveil.benchmark.process import peak_mb
from gridveil.core.errors import InputError

LONGEST_NOTE = 200


class Report:
    """Report rewritten at each stage, so that nothing is lost if the process is stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts: dict[str, Any] = {}

    def update(self, **facts: Any) -> None:
        """Add facts; the file is replaced atomically."""
        self._facts |= facts | {"peak_mb": peak_mb()}
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps(self._facts))
        draft.replace(self._path)


def main(request: dict[str, Any], report: Report) -> None:
    """Handle the request, and report the reason if it fails."""
    try:
        if request["task"] == "warm up":
            from gridveil.solvers.structured.warm_up import warm_up

            warm_up()
        elif request["task"] == "opf":
            from gridveil.benchmark.opf import measure_opf

            measure_opf(request["case"], request["solver"], request["repeats"], request["limit"], report.update)
        else:
            from gridveil.benchmark.releases import measure_releases

            measure_releases(request["case"], request["seeds"], request["repeats"], report.update)
    except (NotApplicableError, InputError) as error:
        report.update(status="not applicable", note=_one_line(error))
    except Exception as error:  # a peer may fail in any way, and that is a result
        report.update(status="failed", note=f"{type(error).__name__}: {_one_line(error)}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:LONGEST_NOTE]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Report(Path(sys.argv[2])))
