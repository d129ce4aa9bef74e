"""Paints the roofline plot's shapes as a PNG, with Pillow (the extra `plot`); pure, writes no file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from hotkernel.judge.roofline_plot import HEIGHT, WIDTH, Dot, Line, Shape, Text

SCALE = 2  # pixels for each unit of the drawing: sharp on a dense screen, and some 60 kB
DASH, GAP = 8.0, 5.0
ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}  # Pillow's words for left, middle and right on the baseline


def to_png(shapes: Sequence[Shape]) -> bytes:
    """The shapes as a PNG file's content. Raises ImportError where Pillow is missing."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), "#ffffff")
    pen = ImageDraw.Draw(image)
    for shape in shapes:
        if isinstance(shape, Text):
            font = ImageFont.load_default(shape.size * SCALE)  # Pillow brings this font: none need be installed
            place = (shape.x * SCALE, shape.y * SCALE)
            pen.text(place, shape.text, fill=shape.colour, font=font, anchor=ANCHORS[shape.anchor])
        elif isinstance(shape, Dot):
            x, y, radius = shape.x * SCALE, shape.y * SCALE, shape.radius * SCALE
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=shape.colour)
        else:
            _stroke(pen, shape)
    content = io.BytesIO()
    image.save(content, "PNG", optimize=True)
    return content.getvalue()


def _stroke(pen: Any, line: Line) -> None:
    """A line, in dashes where it has some: Pillow draws none itself."""
    length = ((line.x2 - line.x1) ** 2 + (line.y2 - line.y1) ** 2) ** 0.5
    start = 0.0
    while start < length:
        end = min(start + DASH, length) if line.dashed else length
        ends = [(line.x1 + (line.x2 - line.x1) * at / length, line.y1 + (line.y2 - line.y1) * at / length)
                for at in (start, end)]
        pen.line([(x * SCALE, y * SCALE) for x, y in ends], fill=line.colour, width=round(line.width * SCALE))
        start = end + GAP
