"""Bad gas files: one clear line, no demand in it, and never anything but an InputError."""

from __future__ import annotations

import pytest
from gas_builders import CS, GASLIB_SECRETS, MATGAS, NET, SCN, SECRETS, network_of, write_gaslib
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridveil.core.errors import InputError
from gridveil.sectors.gas.boundary import GasBoundary
from gridveil.sectors.gas.gaslib import read_gaslib
from gridveil.sectors.gas.matgas import read_matgas
from gridveil.sectors.gas.read import read_gas_file

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE network [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {chr(98 + k)} "{("&" + chr(97 + k) + ";") * 10}">' for k in range(12))
    + "]><network>&m;</network>"
)
OUTSIDE = '<?xml version="1.0"?><!DOCTYPE network [<!ENTITY a SYSTEM "file:///etc/hostname">]><network>&a;</network>'
ATTRIBUTE = '<?xml version="1.0"?><!DOCTYPE network [<!ENTITY a "x">]><network id="&a;"/>'
DEEP = "<network>" + "<a>" * 100_000 + "</a>" * 100_000 + "</network>"


def message_of(read, *arguments, secrets) -> str:
    with pytest.raises(InputError) as error:
        read(*arguments)
    message = str(error.value)
    assert "\n" not in message
    assert not [secret for secret in secrets if secret in message]
    assert error.value.__cause__ is None
    return message


MATGAS_DAMAGE = {
    "slack": ("5000000 1 1 'Line", "5000000 0 1 'Line", "no slack junction"),
    "disconnected": ("2 3 4 0.4 20000 0.012", "2 3 3 0.4 20000 0.012", "junction 4 is in a part"),
    "diameter": ("1 2 3 0.5 40000", "1 2 3 0 40000", "pipe 1 has no positive diameter"),
    "length": ("1 2 3 0.5 40000", "1 2 3 0.5 -40000", "pipe 1 has a negative length"),
    "diameter in mm": ("1 2 3 0.5 40000", "1 2 3 500 40000", "pipe 1 has a diameter below 1 mm or above 100 m"),
    "length in mm": ("1 2 3 0.5 40000", "1 2 3 0.5 4e12", "pipe 1 is longer than 100 000 km"),
    "friction": ("0.5 40000 0.011", "0.5 40000 0", "pipe 1 has no positive friction factor"),
    "units": ("mgc.units = 'si'", "mgc.units = 'usc'", "unknown unit system"),
    "no units": ("mgc.units = 'si';", "", "mgc.units is missing"),
    "per unit": ("is_per_unit = 0", "is_per_unit = 1", "per unit"),
    "delivery": ("2 4 0 52.375 23.125", "2 77 0 52.375 23.125", "line 48 (delivery): unknown junction 77"),
    "pipe end": ("1 2 3 0.5", "1 2 55 0.5", "unknown junction 55 in column to_junction"),
    "withdrawal": ("52.375 23.125 0 1", "52.375 23.125x 0 1", "withdrawal_nominal is not a finite number"),
    "nan": ("52.375 23.125 0 1", "52.375 NaN 0 1", "withdrawal_nominal is not a finite number"),
    "infinite": ("52.375 23.125 0 1", "52.375 1e999 0 1", "withdrawal_nominal is not a finite number"),
    "short row": ("3 4 0 53.375 17.375 0 1 0.98 'LDC_C'", "3 4 0", "the row ends before column"),
    "limits": ("2 4000000 8000000", "2 9000000 8000000", "junction 2 has p_min above p_max"),
    "ratio": ("1 1 2 1 1.6", "1 1 2 1 0.6", "compressor 1 has an empty range"),
    "flow limits": ("-900 900", "900 -900", "compressor 1 has flow_min above flow_max"),
    "twice": ("3 4000000 8000000", "2 4000000 8000000", "junction 2 appears twice"),
    "header": ("% id junction_id withdrawal_min withdrawal_max withdrawal_nominal", "% x", "no column"),
    "no table": ("mgc.delivery", "mgc.elsewhere", "mgc.delivery is missing"),
    "table twice": ("mgc.transfer", "mgc.delivery", "appears twice in the file"),
    "no deliveries": ("0 1 0.98", "0 0 0.98", "no deliveries in service"),
    "gamma": ("ratio = 1.4", "ratio = 0.9", "heat capacities must exceed 1"),
    "sound": ("sound_speed = 350", "sound_speed = -350", "speed of sound must be positive"),
    "sound word": ("sound_speed = 350", "sound_speed = fast", "mgc.sound_speed is not a finite number"),
}


@pytest.mark.parametrize("damage", MATGAS_DAMAGE)
def test_damaged_matgas(tmp_path, damage):
    good, bad, expected = MATGAS_DAMAGE[damage]
    assert good in MATGAS
    path = tmp_path / "tiny.m"
    path.write_text(MATGAS.replace(good, bad))
    assert expected in message_of(lambda: network_of(read_matgas(path)), secrets=SECRETS)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (b" \n\t\n", "empty"),
        (b"\x7fELF\x02\x00\x00" * 40, "not a text file"),
        (bytes(range(256)), "not a text file"),
        (b"hello world\n", "no MatGas tables"),
        (MATGAS[: MATGAS.index("17.375")].encode(), "never ends"),
        (MATGAS[: MATGAS.index("%% delivery")].encode(), "mgc.delivery is missing"),
    ],
)
def test_files_that_are_no_whole_network(tmp_path, content, expected):
    path = tmp_path / "tiny.m"
    path.write_bytes(content)
    assert expected in message_of(read_gas_file, path, secrets=SECRETS)


def test_files_that_are_not_there(tmp_path):
    assert "no such file" in message_of(read_gas_file, tmp_path / "none.m", secrets=())
    assert "small.net" in message_of(read_gas_file, write_gaslib(tmp_path).with_suffix(".scn"), secrets=())
    (tmp_path / "small.scn").unlink()
    assert "small.scn is missing" in message_of(read_gas_file, tmp_path / "small.net", secrets=())


GASLIB_DAMAGE = {
    "malformed": ("net", "</network>", "", "malformed XML"),
    "bad tag": ("net", "<innode id", "<innode <id", "malformed XML"),
    "root": ("net", "network", "graph", "root element is not network"),
    "unit": ("net", 'value="36" unit="km"', 'value="36" unit="mile"', "(length): unknown unit; known are m, meter, km"),
    "no unit": ("net", 'value="36" unit="km"', 'value="36"', "unknown unit"),
    "diameter": ("net", 'value="500" unit="mm"', 'value="0" unit="mm"', "(pipe p): diameter must be positive"),
    "resistor diameter": ("net", 'value="400" unit="mm"', 'value="0" unit="mm"', "pipe r has no positive diameter"),
    "length": ("net", 'value="36" unit="km"', 'value="-36" unit="km"', "pipe p has a negative length"),
    "roughness": ("net", 'value="0.05" unit="mm"', 'value="0" unit="mm"', "roughness must be positive"),
    "end": ("net", 'to="town"', 'to="city"', "to names an unknown node"),
    "no end": ("net", ' to="b"', "", "attribute to is missing"),
    "twice": ("net", 'innode id="b"', 'innode id="a"', "node a appears twice"),
    "kind": ("net", "shortPipe", "wormhole", "cannot be read"),
    "number": ("net", 'value="36" unit="km"', 'value="thirty" unit="km"', "not a finite number"),
    "missing": ("net", '<length value="36" unit="km"/>', "", "(pipe p): length is missing"),
    "density": ("net", '<normDensity value="0.8" unit="kg_per_m_cube"/>', "", "no source gives a normDensity"),
    "temperature": ("net", 'value="10" unit="Celsius"', 'value="-400" unit="Celsius"', "must be positive"),
    "encoding": ("net", 'encoding="UTF-8"', 'encoding="UTF-88"', "encoding that cannot be read"),
    "no nodes": ("net", "framework:nodes", "framework:knots", "nodes or connections are missing"),
    "exit": ("scn", 'id="town"', 'id="city"', "this exit stands at an unknown node"),
    "entry type": ("scn", 'type="exit" id="town"', 'type="hole" id="town"', "must be entry or exit"),
    "exit unit": ("scn", 'unit="kg_per_s"', 'unit="48.375"', "(flow): unknown unit"),
    "exit number": ("scn", 'value="48.375"', 'value="48.375.1"', "not a finite number"),
    "exit bound": ("scn", 'bound="both" unit="kg_per_s"', 'bound="48.375" unit="kg_per_s"', "bound must be"),
    "open exit": ("scn", 'bound="upper"', 'bound="lower"', "no lower and upper bound"),
    "no scenario": ("scn", "scenario", "story", "no scenario found"),
    "no exits": ("scn", 'type="exit"', 'type="entry"', "states no flow of this sink"),
    "station speed": ("cs", 'unit="per_s"', 'unit="mph"', "(speedMax): unknown unit"),
    "station head": ("cs", 'coeff_1 value="2"', 'coeff_1 value="2e9"', "impossible head"),
    "station map": ("cs", '<n_isoline_coeff_5 value="0.0005"/>', "", "n_isoline_coeff_5 is missing"),
}


@pytest.mark.parametrize("damage", GASLIB_DAMAGE)
def test_damaged_gaslib(tmp_path, damage):
    file, good, bad, expected = GASLIB_DAMAGE[damage]
    texts = {"net": NET, "scn": SCN, "cs": CS}
    assert good in texts[file]
    path = write_gaslib(tmp_path, **{**texts, file: texts[file].replace(good, bad)})
    assert expected in message_of(read_gaslib, path, secrets=GASLIB_SECRETS)


def test_a_gaslib_network_without_slack_is_refused(tmp_path):
    tables = read_gaslib(write_gaslib(tmp_path))
    assert "no slack junction" in message_of(network_of, tables, secrets=GASLIB_SECRETS)
    cut = read_gaslib(
        write_gaslib(tmp_path, net=NET.replace('<pipe id="p" from="a" to="b">', '<pipe id="p" from="a" to="a">'))
    )
    message = message_of(network_of, cut, GasBoundary(slack={"well": 50e5}), secrets=GASLIB_SECRETS)
    assert "junction b is in a part of the network that is disconnected" in message


@pytest.mark.parametrize("text", [BOMB, OUTSIDE, ATTRIBUTE])
@pytest.mark.parametrize("file", ["net", "scn", "cs"])
def test_entities_do_not_expand(tmp_path, text, file):
    root = {"net": "network", "scn": "boundaryValue", "cs": "compressorStations"}[file]
    path = write_gaslib(tmp_path, **{"net": NET, "scn": SCN, "cs": CS, file: text.replace("network", root)})
    assert "document types and entities are not accepted" in message_of(read_gaslib, path, secrets=GASLIB_SECRETS)


def test_deep_xml_is_refused(tmp_path):
    assert "nest too deep" in message_of(read_gaslib, write_gaslib(tmp_path, net=DEEP), secrets=())


def read_or_refuse(read, path) -> None:
    try:
        read(path)
    except InputError as error:
        assert "\n" not in str(error)


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(data=st.data())
def test_cut_and_altered_matgas_is_read_or_refused(tmp_path, data):
    path = tmp_path / "tiny.m"
    path.write_bytes(damaged(data, MATGAS.encode()))
    read_or_refuse(lambda file: network_of(read_matgas(file)), path)


@FUZZ
@given(data=st.data(), file=st.sampled_from(["net", "scn", "cs"]))
def test_cut_and_altered_gaslib_is_read_or_refused(tmp_path, data, file):
    path = write_gaslib(tmp_path)
    path.with_suffix(f".{file}").write_bytes(damaged(data, {"net": NET, "scn": SCN, "cs": CS}[file].encode()))
    read_or_refuse(lambda net: network_of(read_gaslib(net), GasBoundary(slack={"well": 50e5})), path)


def damaged(data, content: bytes) -> bytes:
    """Cut the content, or put other bytes (often digits and signs) into a few places."""
    if data.draw(st.booleans()):
        return content[: data.draw(st.integers(0, len(content)))]
    altered = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(altered) - 1))
        altered[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.one_of(
                st.sampled_from([b"0", b"-", b"9e9", b"nan", b"'", b"]", b"%", b"<", b'"', b"&x;"]),
                st.binary(max_size=3),
            )
        )
    return bytes(altered)
