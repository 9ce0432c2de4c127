"""VSC lines and FACTS devices of PSS/E files: their ratings count, and what they are set to does not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import powerio
import pytest

from conftest import Matpower, optimum
from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.sectors.power.costs import costs_from_curves
from gridveil.sectors.power.tables import CostCurve
from gridveil.sectors.registry import describe_case, load_case, write_network

CHEAP, DEAR, LOAD, LINE = 10.0, 40.0, 90.0, 20.0
VSC_ENDS = {
    "VSC": "BEGIN VSC DC LINE DATA\n",
    "FACTS": "BEGIN FACTS DEVICE DATA\n",
    "MTDC": "BEGIN MULTI-TERMINAL DC DATA\n",
}


def converter(bus, *, mode=2, set_to=0.0, ac=1.0, loss=(0.0, 0.0), least=0.0, smax=30.0, imax=0.0, q=(8.0, -7.0)):
    """One record: type, mode, DCSET, ACSET, ALOSS (kW), BLOSS (kW/A), MINLOSS, SMAX, IMAX, PWF, MAXQ, MINQ, REMOT, RMPCT."""
    return f"{bus}, {mode}, 1, {set_to}, {ac}, {loss[0]}, {loss[1]}, {least}, {smax}, {imax}, 0.5, {q[0]}, {q[1]}, 0, 100.0\n"


def vsc(first: str, second: str, on: int = 1) -> str:
    return f"'Cable, north', {on}, 0.0, 1, 1.0\n{first}{second}"


def psse(tmp_path, *, qd=0.0, q=(-1000.0, 1000.0), **records: str):
    """Cheap power at bus 1, a load and dear power at bus 2, between them a line of 20 MVA and what the records state."""
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=LOAD, qd=qd)
    net.add_gen(1, q=q)
    net.add_gen(2, q=q)
    net.add_branch(1, 2, rate=LINE)
    source, path = tmp_path / "source.m", tmp_path / "case.raw"
    source.write_text(net.text())
    path.unlink(missing_ok=True)
    powerio.emit(powerio.parse(str(source)), "psse", str(path))
    text = path.read_text()
    for section, lines in records.items():
        assert text.count(VSC_ENDS[section]) == 1
        text = text.replace(VSC_ENDS[section], VSC_ENDS[section] + lines)
    path.write_text(text)
    return path


def priced(path, slopes=(CHEAP, DEAR)):
    """The case with costs, which PSS/E files do not state."""
    case = load_case(str(path))
    curves = [CostCurve(polynomial=(slope, 0.0)) for slope in slopes]
    cost = costs_from_curves(curves, case.network.base_mva, np.array([1, 2]))
    return replace(case, network=replace(case.network, generator=replace(case.network.generator, cost=cost)))


def cheapest(case) -> float:
    return optimum(case, Formulation.DC).cost


@pytest.mark.parametrize("backwards", [False, True])
def test_a_vsc_line_carries_its_rating_less_its_losses_in_both_directions(tmp_path, backwards):
    """DC power flow: 20 MW over the line, 30 MW into the VSC line, the rest dear. 0.7 and 0.5 MW are lost at its ends; BLOSS of
    3 and 2 kW/A at 150 kV takes 5/150 of the power."""
    ends = [converter(1, mode=1, set_to=150.0, loss=(700.0, 3.0)), converter(2, loss=(500.0, 2.0), smax=45.0)]
    case = priced(psse(tmp_path, VSC=vsc(*(ends[::-1] if backwards else ends))))
    arriving = 30.0 * (1 - 5 / 150) - 0.5
    expected = CHEAP * (LINE + 30.0 + 0.7) + DEAR * (LOAD - LINE - arriving)
    assert cheapest(case) == pytest.approx(expected, rel=1e-7)
    without = priced(psse(tmp_path, VSC=vsc(*ends, on=0)))
    assert cheapest(without) == pytest.approx(CHEAP * LINE + DEAR * (LOAD - LINE), rel=1e-7)
    assert any(note.startswith("VSC lines: power within SMAX") for note in describe_case(case)["notes"])


def test_a_current_limits_a_converter_too_and_losses_without_a_voltage_are_noted(tmp_path):
    """sqrt(3) · 230 kV · 50 A = 19.92 MVA; both converters control power, so no DC voltage is stated."""
    case = priced(
        psse(tmp_path, VSC=vsc(converter(1, imax=50.0, loss=(0.0, 2.0), set_to=77.7), converter(2, smax=0.0)))
    )
    rating = math.sqrt(3) * 230 * 50 / 1000
    assert cheapest(case) == pytest.approx(CHEAP * (LINE + rating) + DEAR * (LOAD - LINE - rating), rel=1e-7)
    assert "VSC lines without a DC voltage (records 1): losses by BLOSS are not modelled" in case.notes


def test_reactive_power_of_a_converter_is_limited(tmp_path):
    """Without generators' reactive power the load's 12 MVAr come from the converters; with limits of 1 there is no flow."""
    wide, narrow = ((8.0, -7.0), (1.0, -1.0))
    for q, feasible in ((wide, True), (narrow, False)):
        case = priced(psse(tmp_path, qd=12.0, q=(0.0, 0.0), VSC=vsc(converter(1, q=q), converter(2, q=q))))
        if feasible:
            assert optimum(case).cost > 0
        else:
            with pytest.raises(AssertionError):
                optimum(case)


def test_the_shunt_part_of_a_facts_device_feeds_what_its_rating_allows(tmp_path):
    """Generators without reactive power: a load of 12 MVAr and the line's own losses need the device."""
    records = "'STATCOM', 2, 0, 1, 0.0, 3.625, 1.03, {rating}, 0.0, 0.9, 1.1\n"
    strong = priced(psse(tmp_path, qd=12.0, q=(0.0, 0.0), FACTS=records.format(rating=60.0)))
    assert optimum(strong).cost > 0
    assert strong.network.compensator.b_max == pytest.approx(
        [0.6]
    ) and strong.network.compensator.b_min == pytest.approx([-0.6])
    assert any("FACTS devices: their shunt part" in note for note in strong.notes)
    for other in (records.format(rating=4.0), records.format(rating=60.0).replace("2, 0, 1", "2, 0, 0")):
        with pytest.raises(AssertionError):
            optimum(priced(psse(tmp_path, qd=12.0, q=(0.0, 0.0), FACTS=other)))


def test_devices_come_back_from_a_written_file_and_set_points_do_not(tmp_path):
    """Another schedule, the same bytes: powers, power factors, voltages of buses, desired flows."""
    written = []
    for power, factor, desired in ((12.125, 0.95, 3.625), (-7.375, 1.04, 99.5)):
        lines = vsc(
            converter(1, mode=1, set_to=150.0, ac=factor, loss=(100.0, 1.0)), converter(2, set_to=power, ac=factor)
        )
        lines += vsc(converter(2, set_to=power, loss=(250.0, 0.0)), converter(1, set_to=power, smax=18.0))
        facts = f"'A', 2, 0, 1, {desired}, {desired}, {factor}, 25.0\n'B', 1, 0, 0, 1.0, 1.0, 1.0, 9999.0\n"
        case = priced(psse(tmp_path, VSC=lines, FACTS=facts))
        folder = tmp_path / f"{power}"
        folder.mkdir()
        path = write_network(case.network, case.values.reveal(), folder, "psse", title="test")
        back = priced(path)
        for name in ("dc_line", "compensator"):
            one, other = getattr(case.network, name), getattr(back.network, name)
            for column in one.__dataclass_fields__:
                if column != "cost":
                    assert getattr(other, column) == pytest.approx(getattr(one, column)), column
        assert cheapest(back) == pytest.approx(cheapest(case), rel=1e-9)
        written.append(path.read_bytes())
    assert written[0] == written[1] and b"12.125" not in written[0] and b"Cable" not in written[0]


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (
            {"VSC": vsc(converter(1, smax=0.0), converter(2, smax=0.0, set_to=43.21))},
            "VSC line 1: the file states no rating",
        ),
        ({"VSC": converter(1)}, "three records"),
        ({"VSC": vsc(converter(1, smax="x"), converter(2))}, "field 9 of a record is no finite number"),
        ({"FACTS": "'SSSC', 1, 2, 1, 43.21, 0.0, 1.0, 50.0\n"}, "FACTS device 1: it has a series part"),
        ({"MTDC": "'M', 1, 1, 0, 1, 0, 0.0, 0\n1, 2, 43.21\n1, 1\n"}, "multi-terminal DC line 1: it is in service"),
    ],
)
def test_what_has_no_rating_or_no_model_is_refused_with_its_reason(tmp_path, records, reason):
    with pytest.raises(InputError, match=reason) as refused:
        load_case(str(psse(tmp_path, **records)))
    assert "43.21" not in str(refused.value)


def test_what_is_out_of_service_is_not_refused(tmp_path):
    off = vsc(converter(1, smax=0.0), converter(2, smax=0.0), on=0) + vsc(
        converter(1, mode=0, smax=0.0), converter(2, smax=0.0)
    )
    series, several = "'SSSC', 1, 2, 0, 0.0, 0.0, 1.0, 50.0\n", "'M', 1, 1, 0, 0, 0, 0.0, 0\n1, 2, 90.0\n1, 1\n" * 2
    case = priced(psse(tmp_path, VSC=off, FACTS=series, MTDC=several))
    assert cheapest(case) == pytest.approx(CHEAP * LINE + DEAR * (LOAD - LINE), rel=1e-7)
    assert not any("VSC" in note or "FACTS" in note for note in case.notes)
