"""One list of public facts: what ``inspect`` says, what the writer's tables hold, and what written files contain."""

from __future__ import annotations

import re
from dataclasses import fields
from xml.etree import ElementTree

import numpy as np
import pytest
from gas_builders import write_gaslib

from gridveil.sectors.case import Case
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.gas.sector import GAS
from gridveil.sectors.gas.tables import (
    GasProperties,
    JunctionTable,
    LinkTable,
    PipeTable,
    PublicGasTables,
    ReceiptTable,
    StationTable,
)
from gridveil.sectors.registry import describe_case, load_case, write_network

SECRET = "withdrawal"
TABLES = {
    "junction": JunctionTable,
    "pipe": PipeTable,
    "link": LinkTable,
    "compressor": StationTable,
    "regulator": StationTable,
    "receipt": ReceiptTable,
    "gas": GasProperties,
}
NAMES_OF_EDGES = {"pipe.id", "link.id", "compressor.id", "regulator.id"}  # for messages; written edges are numbered
LIMITS = ("junction.p_min", "junction.p_max")


def ends(edge: str) -> dict[str, tuple[str, ...]]:
    return {"fr_junction": (f"{edge}.from_junction",), "to_junction": (f"{edge}.to_junction",)}


def flows(edge: str) -> dict[str, tuple[str, ...]]:
    return {"flow_min": (f"{edge}.flow_min",), "flow_max": (f"{edge}.flow_max",)}


# Fields of a MatGas file: the columns they are made of, or the one value that the format insists on; None for a running number.
MATGAS = {
    "junction": {
        "id": ("junction.id",),
        **{name: (f"junction.{name}",) for name in ("p_min", "p_max")},
        "p_nominal": ("junction.slack_pressure", "junction.p_min"),
        "junction_type": ("junction.slack_pressure",),
        "status": 1.0,
    },
    "pipe": {
        "id": None,
        **ends("pipe"),
        **{name: (f"pipe.{name}",) for name in ("diameter", "length", "friction_factor")},
        "p_min": LIMITS,
        "p_max": LIMITS,
        "status": 1.0,
        **flows("pipe"),
    },
    "short_pipe": {"id": None, **ends("link"), "status": 1.0},
    "compressor": {
        "id": None,
        **ends("compressor"),
        "c_ratio_min": ("compressor.ratio_min",),
        "c_ratio_max": ("compressor.ratio_max",),
        "power_max": 1e100,
        **flows("compressor"),
        **dict.fromkeys(("inlet_p_min", "inlet_p_max", "outlet_p_min", "outlet_p_max"), LIMITS),
        "status": 1.0,
        "operating_cost": 1.0,
        "directionality": 0.0,
    },
    "regulator": {
        "id": None,
        **ends("regulator"),
        "reduction_factor_min": ("regulator.ratio_min",),
        "reduction_factor_max": ("regulator.ratio_max",),
        **flows("regulator"),
        "status": 1.0,
    },
    "receipt": {
        "id": None,
        "junction_id": ("receipt.junction", "junction.slack_pressure"),
        "injection_min": 0.0,
        "injection_max": 1e100,
        "injection_nominal": ("receipt.injection",),
        "is_dispatchable": ("junction.slack_pressure",),
        "status": 1.0,
    },
    "delivery": {
        "id": None,
        "junction_id": ("delivery_junction",),
        **dict.fromkeys(("withdrawal_min", "withdrawal_max", "withdrawal_nominal"), (SECRET,)),
        "is_dispatchable": 0.0,
        "status": 1.0,
    },
}
MATGAS_SCALARS = {
    "gas_specific_gravity": "gas.molar_mass",
    "gas_molar_mass": "gas.molar_mass",
    "specific_heat_capacity_ratio": "gas.heat_capacity_ratio",
    "temperature": "gas.temperature",
    "compressibility_factor": "gas.compressibility",
    "sound_speed": "gas.stated_sound_speed",
}
BOILERPLATE = {"units": "'si'", "is_per_unit": "0"}

# Fields of a GasLib network: element/field, and where its value comes from.
EFFECTIVE_GAS = ("gas.temperature", "gas.molar_mass", "gas.stated_sound_speed", *LIMITS)
KINDS = {"pipe": "pipe", "resistor": "pipe", "shortPipe": "link", "compressorStation": "compressor"}
KINDS["controlValve"] = "regulator"
GASLIB = {
    **{f"{node}/@id": ("junction.id",) for node in ("source", "sink", "innode")},
    **{f"{node}/pressureMin": ("junction.p_min",) for node in ("source", "sink", "innode")},
    **{f"{node}/pressureMax": ("junction.p_max",) for node in ("source", "sink", "innode")},
    **{
        f"source/{name}": EFFECTIVE_GAS
        for name in ("gasTemperature", "normDensity", "molarMass", "pseudocriticalTemperature")
    },
    "source/pseudocriticalPressure": "46.0",
    **{f"{kind}/@{end}": (f"{edge}.{end}_junction",) for kind, edge in KINDS.items() for end in ("from", "to")},
    **{
        f"{kind}/{name}": (f"{edge}.{column}",)
        for kind, edge in KINDS.items()
        for name, column in (("flowMin", "flow_min"), ("flowMax", "flow_max"))
        if kind != "shortPipe"
    },
    **{f"pipe/{name}": (f"pipe.{name}",) for name in ("length", "diameter")},
    "pipe/roughness": ("pipe.friction_factor", "pipe.diameter"),
    "resistor/diameter": ("pipe.diameter",),
    "resistor/dragFactor": ("pipe.friction_factor",),
}


def allowed() -> set[str]:
    return {column for fact in GAS.public_facts for column in fact.columns}


def everything(tmp_path) -> Case:
    """A case with every kind of element, a fixed supply among them."""
    return load_case(str(write_gaslib(tmp_path)), GasBoundary(slack={"well": 5e6}))


def test_the_writer_s_tables_hold_the_public_facts_and_the_released_demands_and_nothing_else():
    held = {field.name for field in fields(PublicGasTables)} - set(TABLES)
    held |= {f"{name}.{field.name}" for name, table in TABLES.items() for field in fields(table)}
    assert held - NAMES_OF_EDGES == allowed() | {SECRET}


def test_inspect_says_what_is_published():
    shown = describe_case(load_case("veilgas"))
    assert shown["public"] == [fact.words for fact in GAS.public_facts]
    assert shown["secret"] == ["withdrawal of each delivery"]


@pytest.mark.parametrize("source", ["everything", "veilgas", "veilgas-national"])
def test_a_written_matgas_file_holds_public_facts_released_demands_and_neutral_values_only(source, tmp_path):
    case = everything(tmp_path) if source == "everything" else load_case(source)
    text = write_network(case.network, np.arange(1.0, len(case.field) + 1), tmp_path, "matgas", title="t").read_text()
    pattern = r"%% (\w+) data\n% ([^\n]*)\nmgc\.(\w+) = \[\n(.*?)\n?\];\n"
    rest = [line for line in re.sub(pattern, "", text, flags=re.DOTALL).split("\n") if line]
    assert (rest[0], rest[-1]) == ("function mgc = t", "end")
    for line in rest[1:-1]:
        name, value = re.fullmatch(r"mgc\.(\w+) = (.*);", line).groups()
        assert BOILERPLATE.get(name) == value if name in BOILERPLATE else MATGAS_SCALARS[name] in allowed()
    for title, names, table, body in re.findall(pattern, text, re.DOTALL):
        assert title == table
        rows = [row.split("\t") for row in body.split("\n") if row]
        for k, name in enumerate(names.split()):
            held = MATGAS[table][name]
            if held is None:
                assert [int(row[k]) for row in rows] == list(range(1, len(rows) + 1))
            elif isinstance(held, float):
                assert {float(row[k]) for row in rows} <= {held}, f"{table}.{name} must be neutral"
            else:
                assert set(held) <= allowed() | {SECRET}


@pytest.mark.parametrize("source", ["everything", "veilgas"])
def test_a_written_gaslib_network_holds_public_facts_and_neutral_values_only(source, tmp_path):
    case = everything(tmp_path) if source == "everything" else load_case(source)
    path = write_network(case.network, np.arange(1.0, len(case.field) + 1), tmp_path, "gaslib", title="released")
    root = ElementTree.parse(path).getroot()
    plain = {element: element.tag.rpartition("}")[2] for element in root.iter()}
    information, nodes, connections = root
    assert [plain[part] for part in root] == ["information", "nodes", "connections"]
    assert [(plain[part], part.text) for part in information] == [("title", "released")]
    counts = dict.fromkeys(KINDS, 0)
    for item in [*nodes, *connections]:
        kind = plain[item]
        found = {f"@{name}": value for name, value in item.attrib.items()}
        found |= {plain[part]: part.get("value") for part in item}
        if kind in KINDS:
            counts[kind] += 1
            assert found.pop("@id") == f"{kind}_{counts[kind]}"
        for name, value in found.items():
            held = GASLIB[f"{kind}/{name}"]
            assert value == held if isinstance(held, str) else set(held) <= allowed()
    if source == "everything":
        assert all(counts.values())
