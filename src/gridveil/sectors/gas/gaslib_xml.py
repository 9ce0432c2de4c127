"""GasLib's XML, read safely (no document types, hence no entities) and with quantities converted to SI units."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from xml.parsers import expat

from gridveil.core.errors import InputError

MAX_DEPTH = 64  # GasLib nests 7 deep


class PhysicalQuantity(Enum):
    """What a number measures; the names are those of the SI units that it is converted to."""

    PRESSURE = "Pa"
    LENGTH = "m"
    TEMPERATURE = "K"
    DENSITY = "kg/m³"
    MOLAR_MASS = "kg/mol"
    SPEED = "1/min"
    NORMAL_FLOW = "m³/s at normal conditions"
    PLAIN = "1"


# Factor and offset of each unit; the empty name stands for no unit.
_UNITS: dict[PhysicalQuantity, dict[str, tuple[float, float]]] = {
    PhysicalQuantity.PRESSURE: {
        "Pa": (1.0, 0.0),
        "kPa": (1e3, 0.0),
        "MPa": (1e6, 0.0),
        "mbar": (1e2, 0.0),
        "bar": (1e5, 0.0),
        "barg": (1e5, 101325.0),
        "psi": (6894.757293168, 0.0),
    },
    PhysicalQuantity.LENGTH: {
        "m": (1.0, 0.0),
        "meter": (1.0, 0.0),
        "km": (1e3, 0.0),
        "mm": (1e-3, 0.0),
        "cm": (1e-2, 0.0),
    },
    PhysicalQuantity.TEMPERATURE: {"K": (1.0, 0.0), "Celsius": (1.0, 273.15), "C": (1.0, 273.15)},
    PhysicalQuantity.DENSITY: {"kg_per_m_cube": (1.0, 0.0)},
    PhysicalQuantity.MOLAR_MASS: {"kg_per_kmol": (1e-3, 0.0), "g_per_mol": (1e-3, 0.0), "kg_per_mol": (1.0, 0.0)},
    PhysicalQuantity.SPEED: {"per_min": (1.0, 0.0), "per_s": (60.0, 0.0)},
    PhysicalQuantity.NORMAL_FLOW: {
        "1000m_cube_per_hour": (1000 / 3600, 0.0),
        "m_cube_per_hour": (1 / 3600, 0.0),
        "m_cube_per_s": (1.0, 0.0),
    },
    PhysicalQuantity.PLAIN: {"": (1.0, 0.0)},
}
KG_PER_SECOND = "kg_per_s"


@dataclass(frozen=True, eq=False)
class Element:
    """One XML element without its text (GasLib keeps all data in attributes) and with its line in the file."""

    source: str
    line: int
    name: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)

    def where(self) -> str:
        """Locate the element without quoting a value, which may be a demand."""
        label = self.attributes.get("id", "")
        return f"{self.source}: line {self.line} ({self.name}{' ' + label if label else ''})"

    def attribute(self, name: str) -> str:
        """Return a required attribute."""
        if name not in self.attributes:
            raise InputError(f"{self.where()}: attribute {name} is missing; complete the element")
        return self.attributes[name]

    def all(self, name: str) -> Iterator[Element]:
        """Return all descendants of this name, in document order."""
        for child in self.children:
            if child.name == name:
                yield child
            yield from child.all(name)

    def child(self, name: str) -> Element | None:
        """Return the first child of this name."""
        return next((child for child in self.children if child.name == name), None)

    def number(self) -> float:
        """Return the attribute ``value`` of this element as a finite number."""
        try:
            value = float(self.attribute("value"))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"{self.where()}: the value is not a finite number; correct it")
        return value

    def quantity(self, kind: PhysicalQuantity) -> float:
        """Return ``value`` in SI units; an unknown unit is an error."""
        unit, known = self.attributes.get("unit", ""), _UNITS[kind]
        if unit not in known:
            raise InputError(f"{self.where()}: unknown unit; known are {', '.join(filter(None, known)) or 'none'}")
        factor, offset = known[unit]
        return self.number() * factor + offset

    def mass_flow(self, normal_density: float | None) -> float:
        """Return ``value`` in kg/s, from kg/s or from a volume at normal conditions and the density there (kg/m³)."""
        if self.attributes.get("unit", "") == KG_PER_SECOND:
            return self.number()
        volume = self.quantity(PhysicalQuantity.NORMAL_FLOW)
        if normal_density is None:
            raise InputError(f"{self.where()}: flows are volumes, but no source gives a normDensity; add one")
        return volume * normal_density

    def measured(self, name: str, kind: PhysicalQuantity) -> float | None:
        """Return the quantity in the child of this name, or None if there is none."""
        child = self.child(name)
        return None if child is None else child.quantity(kind)

    def required(self, name: str, kind: PhysicalQuantity) -> float:
        """Return the quantity in the child of this name, which is required."""
        value = self.measured(name, kind)
        if value is None:
            raise InputError(f"{self.where()}: {name} is missing; complete the element")
        return value


def parse_xml(path: Path, root_name: str) -> Element:
    """Read a file whose root has this name. Malformed XML and any document type (where entities live) are refused."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror}); check the path") from None
    if not content.strip():
        raise InputError(f"{path.name}: the file is empty")
    top = Element(path.name, 0, "", {})
    stack = [top]
    parser = expat.ParserCreate()

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(stack) > MAX_DEPTH:
            raise InputError(f"{path.name}: line {parser.CurrentLineNumber}: elements nest too deep for a GasLib file")
        element = Element(path.name, parser.CurrentLineNumber, name.rpartition(":")[2], attributes)
        stack[-1].children.append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def refuse(*_: object) -> None:
        raise InputError(f"{path.name}: document types and entities are not accepted; remove the DOCTYPE")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise InputError(f"{path.name}: line {error.lineno}: malformed XML; repair the file") from None
    except (LookupError, ValueError):
        raise InputError(
            f"{path.name}: the XML declares an encoding that cannot be read; save the file as UTF-8"
        ) from None
    root = top.children[0]
    if root.name != root_name:
        raise InputError(f"{path.name}: the root element is not {root_name}; give the GasLib file of that kind")
    return root
