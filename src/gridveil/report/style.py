"""Common style of all figures: colour-blind-safe colours, text kept as text, SVG suitable for inlining."""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Colour(StrEnum):
    """Colours from the palette of Okabe and Ito."""

    BLACK = "#000000"
    ORANGE = "#E69F00"
    SKY = "#56B4E9"
    GREEN = "#009E73"
    BLUE = "#0072B2"
    VERMILLION = "#D55E00"
    PURPLE = "#CC79A7"


class Role(StrEnum):
    """What a colour means: the same thing in every figure."""

    TRUE = Colour.BLUE.value
    NOISY = Colour.PURPLE.value
    HIGHPOINT = Colour.SKY.value
    RELEASED = Colour.VERMILLION.value
    BAND = Colour.GREEN.value
    COST = Colour.BLUE.value
    DISTANCE = Colour.ORANGE.value


SERIES = (Colour.BLUE, Colour.VERMILLION, Colour.GREEN, Colour.ORANGE, Colour.SKY, Colour.PURPLE, Colour.BLACK)
"""Colours of series without a role of their own, in order; add markers, as colour alone is not enough beyond four."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK, QUIET, GRID, PAPER = "#1c2126", "#5b6570", "#dfe3e8", "#fefeff"
"""Text and axes, secondary text, grid lines, background: on a page they follow its light or dark scheme."""
LOW, MIDDLE, HIGH = Colour.BLUE.value, "#d8d8d8", Colour.VERMILLION.value
"""The diverging scale: below, near and above zero."""

PAGE_COLOURS = {
    INK: "currentColor",
    QUIET: f"var(--quiet, {QUIET})",
    GRID: f"var(--line, {GRID})",
    PAPER: f"var(--paper, {PAPER})",
}


def page_colour(colour: str) -> str:
    """The colour as a page shows it: text, axes, grid and background follow the light or dark scheme."""
    return PAGE_COLOURS.get(colour, str(colour))


FONTS = ["DejaVu Sans", "Arial", "Helvetica", "Liberation Sans"]
RC: dict[Any, object] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gridveil",
    "text.parse_math": False,  # names from files may hold dollar signs
    "font.family": "sans-serif",
    "font.sans-serif": FONTS,
    "font.size": 9.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.linewidth": 0.8,
    "axes.formatter.useoffset": False,
    "figure.facecolor": PAPER,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "savefig.dpi": 200,
}
METADATA = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}


@contextmanager
def figure_style() -> Iterator[None]:
    """Within this context matplotlib draws in gridveil's style, whatever the user's own settings are."""
    logging.getLogger("matplotlib.font_manager").setLevel(
        logging.ERROR
    )  # the first import ever talks of its font cache
    import matplotlib as mpl
    from cycler import cycler

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update({**RC, "axes.prop_cycle": cycler(color=[str(colour) for colour in SERIES])})
        yield


def new_figure(width: float = 4.8, height: float = 3.2) -> tuple[Figure, Axes]:
    """Create a figure (inches) with one pair of axes, for use within ``figure_style()``. A width of 4.8 fits half a page."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def figure_svg(figure: Figure, title: str = "") -> Markup:
    """Convert a figure to inline SVG that uses the page's font and its light or dark colours.

    Only ids that are referred to stay, with a prefix made from the content, so that figures on one page cannot collide.
    ``title`` is what screen readers say.
    """
    text = io.StringIO()
    with figure_style():
        _settle(figure)
        figure.savefig(text, format="svg", metadata=METADATA["svg"], transparent=True)
    drawing = text.getvalue()
    width = float(re.search(r'<svg[^>]* width="([\d.]+)pt"', drawing)[1])  # type: ignore[index]
    view = re.search(r'viewBox="([^"]+)"', drawing)[1]  # type: ignore[index]
    body = re.sub(r"<(metadata|style)\b.*?</\1>|<!--.*?-->", "", drawing.partition(">\n")[2], flags=re.DOTALL)
    body = body[body.index("<g") : body.rindex("</svg>")]
    label = f'role="img" aria-label="{escape(title)}"' if title else 'aria-hidden="true"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="{view}" {label} stroke-linejoin="round" '
        f'style="width:100%;max-width:{width * 4 / 3:.0f}px;height:auto">'
    )
    return Markup(head + _for_page(body) + "</svg>")


def _settle(figure: Figure) -> None:
    """Lay the figure out now and for good: left to savefig, that costs a whole second drawing."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")


def save_figure(figure: Figure, stem: Path, formats: Sequence[str] = ("svg", "pdf")) -> list[Path]:
    """Write STEM.svg, STEM.pdf, STEM.png (whichever are asked for), the same bytes for the same figure."""
    paths = [stem.with_name(f"{stem.name}.{extension}") for extension in formats]
    with figure_style():
        for path, extension in zip(paths, formats, strict=True):
            figure.savefig(path, format=extension, metadata=METADATA.get(extension))
    return paths


def _for_page(svg: str) -> str:
    """Change tags only, never text: names from files pass through as they are."""
    parts = re.split(r"(<[^>]*>)", svg)
    tags = [_page_tag(part) for part in parts[1::2]]
    used = {name for tag in tags for pair in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', tag) for name in pair}
    prefix = "f" + hashlib.sha256(svg.encode()).hexdigest()[:10]
    texts = [part if part.strip() else "" for part in parts[0::2]]
    return "".join(
        text + tag for text, tag in zip(texts, [*(_own_ids(tag, used, prefix) for tag in tags), ""], strict=True)
    )


def _page_tag(tag: str) -> str:
    """Take the page's font and colours, and drop line breaks and digits beyond 1/100 pt."""
    tag = re.sub(r" *font-family: [^;\"]*;?", "", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", tag)
    tag = re.sub(r"(?<=[ \"(-])\d+\.\d{3,}(?=[ \"\n),])", lambda match: f"{float(match[0]):.2f}", tag)
    for colour, page_colour in PAGE_COLOURS.items():
        tag = tag.replace(f": {colour}", f": {page_colour}")
    return re.sub(r"\s*\n\s*", " ", tag).replace("xlink:href", "href")


def _own_ids(tag: str, used: set[str], prefix: str) -> str:
    tag = re.sub(r' id="([^"]+)"', lambda match: f' id="{prefix}{match[1]}"' if match[1] in used else "", tag)
    return re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", tag)
