"""Placement of labels without overlap: the scale (pixels per unit of the drawing) from which each label fits."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SCALES = tuple(float(scale) for scale in 0.3 * 1.35 ** np.arange(16))  # from a phone to far into the drawing
FONT_SIZE = 12.0  # px
CHARACTER, CAPITAL, WIDE = 0.66, 0.8, 1.05  # widths in font sizes, as of a wide font: boxes must not be too small
HEIGHT = 1.25  # of a line, in font sizes
GAP = 3.0  # between a node and its label, px
GROWTH = 0.4  # nodes grow with this power of the scale, so that they neither vanish nor cover each other
SIDES = np.array([(1, 0), (-1, 0), (0, -1), (0, 1)])  # right, left, above, below


@dataclass(frozen=True, eq=False, kw_only=True)
class Labels:
    """For each node the scale from which its label is shown (inf: never) and the side of the node on which it stands."""

    scale: Floats
    side: Ints


def place_labels(
    texts: list[str], position: Floats, radius: Floats, priority: Floats, frame: tuple[float, float]
) -> Labels:
    """Choose scales and sides, important labels first, all within the drawing's ``frame`` (width, height).

    ``radius`` of the nodes is in px at scale one; y points down.
    """
    width = text_widths(texts)
    shown, side = np.full(len(texts), np.inf), np.zeros(len(texts), dtype=np.int64)
    order = np.argsort(-priority, kind="stable")
    for scale in SCALES:
        centre, size = position * scale, radius * scale**GROWTH
        standing = np.flatnonzero(np.isfinite(shown))
        taken, count = label_boxes(centre, size, width, side), len(standing)
        taken[:count] = taken[standing]
        waiting = order[np.isinf(shown[order])]
        choices = [label_boxes(centre, size, width, np.full(len(texts), choice)) for choice in range(len(SIDES))]
        free = np.array(
            [
                _within(choice[waiting], scale * np.array(frame)) & _clear_of_nodes(choice[waiting], centre, size)
                for choice in choices
            ]
        )
        for place, node in enumerate(waiting):
            for choice in np.flatnonzero(free[:, place]):
                box = choices[choice][node]
                if _clear_of_boxes(box, taken[:count]):
                    shown[node], side[node], taken[count] = scale, choice, box
                    count += 1
                    break
    return Labels(scale=shown, side=side)


def text_widths(texts: list[str]) -> Floats:
    """Upper bounds on the widths of texts (px)."""
    return FONT_SIZE * np.array([sum(map(_character_width, text)) for text in texts])


def label_boxes(centre: Floats, radius: Floats, width: Floats, side: Ints) -> Floats:
    """Bounding boxes (left, top, right, bottom), in px, of labels on these sides of their nodes."""
    half = np.column_stack([width / 2, np.full(len(width), FONT_SIZE * HEIGHT / 2)])
    middle = centre + SIDES[side] * (radius[:, None] + GAP + half)
    return np.hstack([middle - half, middle + half])


def _character_width(character: str) -> float:
    if character in "MWmw@%…" or unicodedata.east_asian_width(character) in "WF":
        return WIDE
    return CAPITAL if character.isupper() else CHARACTER


def _within(boxes: Floats, frame: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.all(boxes[:, :2] >= 0, axis=1) & np.all(boxes[:, 2:] <= frame, axis=1))


def _clear_of_boxes(box: Floats, others: Floats) -> bool:
    apart = (others[:, 0] >= box[2]) | (others[:, 2] <= box[0]) | (others[:, 1] >= box[3]) | (others[:, 3] <= box[1])
    return bool(np.all(apart))


def _clear_of_nodes(boxes: Floats, centre: Floats, radius: Floats) -> NDArray[np.bool_]:
    """Whether boxes meet none of the nodes."""
    outside = np.zeros((len(boxes), len(centre)))
    for k in range(2):
        side = centre[:, k]
        outside += np.maximum(np.maximum(boxes[:, k, None] - side, side - boxes[:, 2 + k, None]), 0) ** 2
    return np.asarray(np.all(outside >= radius**2, axis=1))
