"""CGMES archives through pandapower's converter, next to the tool that wrote them."""

from __future__ import annotations

import numpy as np
import pytest

from gridveil.core.choices import Names
from gridveil.core.errors import InputError
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.registry import load_case


def test_an_archive_of_another_tool(tmp_path):
    pytest.importorskip("pandapower")
    tool = pytest.importorskip("pypowsybl", reason="needs pypowsybl, which writes CGMES")
    source = tool.network.create_ieee9()
    path = tmp_path / "case.zip"
    source.save(str(path), format="CGMES")
    case = load_case(str(path), Names.KEEP)
    assert isinstance(case.network, PowerNetwork)
    loads = source.get_loads()
    assert np.sum(case.values.reveal()) * case.network.base_mva == pytest.approx(
        complex(loads.p0.sum(), loads.q0.sum())
    )
    assert len(case.network.bus.id) == len(source.get_buses())
    assert len(case.network.branch.rate) == len(source.get_lines()) + len(source.get_2_windings_transformers())
    assert len(case.network.given.bus) == 9 and case.network.bus.reference.sum() == 1
    assert any(note.startswith("CGMES: converted by pandapower") for note in case.notes)


def test_what_is_no_cgmes_is_refused_in_one_line(tmp_path):
    path = tmp_path / "case.zip"
    path.write_bytes(b"41.75 is no archive")
    with pytest.raises(InputError) as error:
        load_case(str(path))
    assert "41.75" not in str(error.value) and "\n" not in str(error.value)
    assert "cannot read it as CGMES" in str(error.value) or "gridveil[cgmes]" in str(error.value)
