"""Figures for pages: text stays text, ids never collide, names from files cannot break out, bytes repeat."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np

from gridveil.report.style import INK, Colour, figure_style, figure_svg, new_figure, save_figure

NASTY = 'x </text><script>alert("1")</script> & $\\frac{$ href="#a"'


def draw(shift: float, title: str = "Demands"):
    with figure_style():
        figure, axes = new_figure()
        axes.plot(np.arange(5) + shift, "o", label="site")
        axes.set_title(title)
        axes.legend()
    return figure


def ids(svg: str) -> set[str]:
    return set(re.findall(r' id="([^"]+)"', svg))


def test_two_figures_share_a_page_without_colliding():
    first, second = figure_svg(draw(0)), figure_svg(draw(1))
    assert ids(first) and not ids(first) & ids(second)
    for svg in (first, second):
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg)) == ids(svg)


def test_inline_svg_has_no_prolog_and_keeps_text_as_text():
    svg = figure_svg(draw(0), "one & two")
    root = ElementTree.fromstring(svg)
    assert svg.startswith("<svg") and "<!DOCTYPE" not in svg and "<style" not in svg
    assert "Demands" in [text.strip() for text in root.itertext()]
    assert root.get("aria-label") == "one & two"
    assert INK not in svg and "currentColor" in svg  # follows the page's light or dark scheme
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_a_name_from_a_file_stays_a_name():
    svg = figure_svg(draw(0, NASTY))
    texts = list(ElementTree.fromstring(svg).itertext())
    assert NASTY in [text.strip() for text in texts]
    assert "<script" not in svg


def test_the_same_figure_gives_the_same_bytes(tmp_path):
    assert figure_svg(draw(0)) == figure_svg(draw(0))
    for name in ("one", "two"):
        save_figure(draw(0), tmp_path / name, ("svg", "pdf", "png"))
    for extension in ("svg", "pdf", "png"):
        assert (tmp_path / f"one.{extension}").read_bytes() == (tmp_path / f"two.{extension}").read_bytes()


def test_the_palette_can_be_told_apart_without_red_and_green():
    """Under simulated deuteranopia (Machado, Oliveira and Fernandes 2009) no two colours come near each other."""
    matrix = np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]])
    codes = np.array([[int(code[k : k + 2], 16) for k in (1, 3, 5)] for code in Colour]) / 255
    linear = np.where(codes <= 0.04045, codes / 12.92, ((codes + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ matrix.T, 0, 1) ** (1 / 2.4)
    gaps = np.linalg.norm(seen[:, None] - seen[None], axis=2)
    assert gaps[np.triu_indices(len(seen), 1)].min() > 0.1
