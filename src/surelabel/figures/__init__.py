"""How figures look and how they are saved: one style, PNG and SVG, each with a caption."""

from surelabel.figures.canvas import COLORS, MARKERS, canvas, draw_boxes, save_figure

__all__ = ["COLORS", "MARKERS", "canvas", "draw_boxes", "save_figure"]
