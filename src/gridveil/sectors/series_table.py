"""Tables of a time series: one value for each timestamp and site, in long or wide form, read and written alike.

A case may bring its series along: snapshots of a PyPSA network, or profiles of the loads of a pandapower network.

Long: columns ``timestamp``, ``site`` and the parts of a value (``p_mw`` and ``q_mvar``, or ``kg_per_s``). Wide: ``timestamp``,
and for each site the columns ``SITE.p_mw`` and ``SITE.q_mvar``, or ``SITE`` alone for the first part. Reactive power may be
left out where a power factor is given. No message shows a value.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.core.extras import require
from gridveil.core.secret import SecretField, SecretValues
from gridveil.sectors.case import Case
from gridveil.sectors.registry import sector_of

if TYPE_CHECKING:
    import pandas as pd

TIME_NAMES = ("timestamp", "snapshot", "datetime", "time")
SITE_NAMES = ("site", "bus", "junction", "load")
POWER_FACTOR = "power_factor"
CSV, PARQUET = ".csv", ".parquet"
SNAPSHOTS = "snapshots"
"""What stands for the series of the case's own file, in place of the name of a table."""
SIMBENCH_TIME, SIMBENCH_ZONE = "%d.%m.%Y %H:%M", "Europe/Berlin"

Table = NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesLayout:
    """The public side of a table: its timestamps, its form and the names of its columns."""

    timestamps: Any
    """A pandas Index, of the type that was read."""
    time_name: str
    site_name: str | None
    """Column of the sites; None for a wide table."""
    sites: tuple[str, ...]
    columns: tuple[str, ...]
    """Names of the parts of a value."""
    base: float
    suffix: str = PARQUET

    def frame(self, values: Table) -> pd.DataFrame:
        """Released values (per unit, shape (hours, sites)) as a table of the same form, in physical units."""
        import pandas as pd

        parts = [self.base * half for half in (values.real, values.imag)[: len(self.columns)]]
        if self.site_name is None:
            wide = {
                self._wide_name(site, column): part[:, position]
                for position, site in enumerate(self.sites)
                for column, part in zip(self.columns, parts, strict=True)
            }
            return pd.DataFrame({self.time_name: self.timestamps, **wide})
        hours, sites = values.shape
        long = {self.time_name: self.timestamps.repeat(sites), self.site_name: np.tile(self.sites, hours)}
        return pd.DataFrame(long | {c: part.ravel() for c, part in zip(self.columns, parts, strict=True)})

    def write(self, values: Table, folder: Path) -> Path:
        """Write released values as series.csv or series.parquet."""
        path, frame = folder / f"series{self.suffix}", self.frame(values)
        if self.suffix == CSV:
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path, index=False)
        return path

    def _wide_name(self, site: str, column: str) -> str:
        return site if len(self.columns) == 1 else f"{site}.{column}"


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesCase:
    """A case and the true values of every hour, one ``SecretValues`` each, in the order of the layout's timestamps."""

    case: Case
    layout: SeriesLayout
    hours: tuple[SecretValues, ...]


def site_names(field: SecretField) -> tuple[str, ...]:
    """Name the sites: their place, numbered where a place has several."""
    total, seen = Counter(field.places), Counter[str]()
    names = []
    for place in field.places:
        seen[place] += 1
        names.append(f"{place}#{seen[place]}" if total[place] > 1 else place)
    return tuple(names)


def read_series(path: Path, case: Case, power_factor: float | None = None) -> SeriesCase:
    """Read the table of a file, CSV or Parquet."""
    return series_of(read_table(path), case, power_factor, suffix=path.suffix.lower())


def named_series(words: Path, case: Case, power_factor: float | None = None) -> SeriesCase:
    """The series of a file, or of the case's own file where its name is ``snapshots``."""
    if str(words) != SNAPSHOTS:
        return read_series(words, case, power_factor)
    if power_factor is not None:
        raise InputError("a power factor is for tables without reactive power; snapshots have it: leave it out")
    return series_of_case(case)


def series_of_case(case: Case) -> SeriesCase:
    """The series that a case's own file holds: snapshots of PyPSA, or profiles of pandapower."""
    import pandas as pd

    if case.over_time is None:
        raise InputError(
            f"{case.name}: its file holds no loads over time (PyPSA snapshots, or pandapower profiles of loads); name a table with "
            "--series FILE"
        )
    labels = case.over_time.timestamps
    layout = SeriesLayout(
        timestamps=pd.Index(_moments(labels)),
        time_name=TIME_NAMES[0],
        site_name=SITE_NAMES[0],
        sites=site_names(case.field),
        columns=tuple(part.column for part in sector_of(case.network).value_parts),
        base=case.field.base,
    )
    _refuse_repeated(layout.timestamps)
    return SeriesCase(case=case.with_values(case.values), layout=layout, hours=case.over_time.values)


def _moments(labels: tuple[str, ...]) -> Any:
    """Dates where every label is one, in the form of PyPSA or of SimBench; else the labels.

    SimBench states German local time: where the clocks are set back, an hour of labels comes twice.
    """
    import pandas as pd

    try:
        return pd.to_datetime(pd.Index(labels), format="ISO8601")
    except (ValueError, TypeError):
        pass
    try:
        local = pd.to_datetime(pd.Index(labels), format=SIMBENCH_TIME)
        return local.tz_localize(SIMBENCH_ZONE, ambiguous="infer") if local.has_duplicates else local
    except (ValueError, TypeError):
        return labels


def read_table(path: Path) -> pd.DataFrame:
    """Read a CSV or Parquet file; texts stay texts."""
    require("pandas", extra="series")
    import pandas as pd

    suffix = path.suffix.lower()
    if suffix not in (CSV, PARQUET):
        raise InputError(f"{path.name}: a series is a {CSV} or {PARQUET} file; convert it first")
    if not path.is_file():
        raise InputError(f"{path}: no such file; name the table of the series")
    try:
        return pd.read_csv(path, dtype=dict.fromkeys(SITE_NAMES, str)) if suffix == CSV else pd.read_parquet(path)
    except Exception:
        # The parser's own words may quote a value.
        raise InputError(f"{path.name}: cannot be read as a table; save it as {CSV} or {PARQUET}") from None


def series_of(
    frame: pd.DataFrame, case: Case, power_factor: float | None = None, *, suffix: str = PARQUET
) -> SeriesCase:
    """Check a table against a case and take its values per unit."""
    import pandas as pd

    time_name = next((name for name in frame.columns if str(name).lower() in TIME_NAMES), None)
    if time_name is None and not isinstance(frame.index, pd.RangeIndex):
        time_name = str(frame.index.name or TIME_NAMES[0])
        frame = frame.rename_axis(time_name).reset_index()
    if time_name is None:
        raise InputError("the series has no column of timestamps; name it 'timestamp'")
    site_name = next((name for name in frame.columns if str(name).lower() in SITE_NAMES), None)
    columns = tuple(part.column for part in sector_of(case.network).value_parts)
    reader = _Wide(frame, time_name, columns) if site_name is None else _Long(frame, time_name, columns, str(site_name))
    sites = site_names(case.field)
    parts = reader.parts(sites, power_factor)
    if not len(parts[0]):
        raise InputError("the series has no hours; give at least one timestamp")
    values = (parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]) / case.field.base
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        raise InputError(
            f"the series has no finite number for site {sites[bad[0, 1]]} at {reader.timestamps[bad[0, 0]]}; mend the table"
        )
    layout = SeriesLayout(
        timestamps=reader.timestamps,
        time_name=str(time_name),
        site_name=None if site_name is None else str(site_name),
        sites=sites,
        columns=columns,
        base=case.field.base,
        suffix=suffix,
    )
    return SeriesCase(case=case, layout=layout, hours=tuple(SecretValues(row) for row in values))


class _Wide:
    """A table with one row for each timestamp."""

    def __init__(self, frame: pd.DataFrame, time_name: str, columns: tuple[str, ...]) -> None:
        import pandas as pd

        self._frame, self._columns = frame.rename(columns=str), columns
        self.timestamps = pd.Index(frame[time_name])
        _refuse_repeated(self.timestamps)
        self._named = [name for name in self._frame.columns if name != str(time_name)]

    def parts(self, sites: tuple[str, ...], power_factor: float | None) -> list[Table]:
        first, *second = self._columns
        names = {site: site if site in self._frame.columns else f"{site}.{first}" for site in sites}
        wanted = list(names.values())
        _refuse_other_sites(self._named, [*wanted, *(f"{s}.{c}" for s in sites for c in second)], wanted)
        active = _numbers(self._frame[wanted])
        if not second:
            return [active]
        reactive = [f"{site}.{second[0]}" for site in sites]
        if all(name in self._frame.columns for name in reactive):
            return [active, _numbers(self._frame[reactive])]
        return [active, active * _tangent(power_factor)]


class _Long:
    """A table with one row for each timestamp and site."""

    def __init__(self, frame: pd.DataFrame, time_name: str, columns: tuple[str, ...], site_name: str) -> None:
        import pandas as pd

        self._frame = frame.assign(**{site_name: frame[site_name].astype(str)})
        self._columns, self._keys = columns, [time_name, site_name]
        self.timestamps = pd.Index(frame[time_name].unique())

    def parts(self, sites: tuple[str, ...], power_factor: float | None) -> list[Table]:
        stated = list(self._frame[self._keys[1]].unique())
        _refuse_other_sites(stated, list(sites), list(sites))
        if self._frame.duplicated(self._keys).any():
            raise InputError("the series states a site twice at one timestamp; give each once")
        first, *second = self._columns
        active = self._table(first, sites)
        if not second:
            return [active]
        if second[0] in self._frame.columns:
            return [active, self._table(second[0], sites)]
        stated_factor = self._table(POWER_FACTOR, sites) if POWER_FACTOR in self._frame.columns else power_factor
        return [active, active * _tangent(stated_factor)]

    def _table(self, column: str, sites: tuple[str, ...]) -> Table:
        if column not in self._frame.columns:
            raise InputError(f"the series has no column {column!r}; add it")
        table = self._frame.pivot(index=self._keys[0], columns=self._keys[1], values=column)
        return _numbers(table.reindex(index=self.timestamps, columns=list(sites)))


def _refuse_repeated(timestamps: pd.Index) -> None:
    if timestamps.has_duplicates:
        raise InputError("the series has a timestamp twice; give each once")


def _refuse_other_sites(found: list[str], known: list[str], wanted: list[str]) -> None:
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise InputError(f"the series names {unknown[0]}, which is no site of the case; see 'gridveil inspect'")
    missing = sorted(set(wanted) - set(found))
    if missing:
        raise InputError(f"the series has nothing for site {missing[0]}; give every site of the case a value")


def _numbers(table: pd.DataFrame) -> Table:
    try:
        return np.asarray(table.to_numpy(dtype=float))
    except (TypeError, ValueError):
        raise InputError("the series holds something that is no number; mend the table") from None


def _tangent(power_factor: float | Table | None) -> float | Table:
    """Q/P of a power factor: negative for a leading one."""
    if power_factor is None:
        raise InputError("the series has no reactive power; add it, or give a power factor (--power-factor 0.95)")
    factor = np.asarray(power_factor, dtype=float)
    if np.any((np.abs(factor) > 1) | (factor == 0)):
        raise InputError("a power factor must lie between -1 and 1, and not be zero; mend the series")
    tangent: Table = np.sqrt(1 / factor**2 - 1) * np.sign(factor)
    return tangent
