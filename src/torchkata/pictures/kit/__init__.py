"""The kit that all pictures draw with.

canvas    a card with words, boxes, arrows and lines on it
cells     a box with words in it, and how the elements of a tensor stand side by side
rasters   boxes of one size in rows and columns, and the arrows between them
plots     a frame with an axis, for curves
layers    the order in a graph that is drawn in layers
"""

from torchkata.pictures.kit.canvas import Canvas
from torchkata.pictures.kit.cells import Cell, Grid, brackets, grid, position
from torchkata.pictures.kit.plots import Plot
from torchkata.pictures.kit.rasters import Raster

__all__ = ["Canvas", "Cell", "Grid", "Plot", "Raster", "brackets", "grid", "position"]
