"""Shapes of Parquet columns: each physical and logical type, and each type of Arrow that pyarrow and pandas write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.file_matrix import arrow_shapes, java_shapes
from tests.file_matrix.shapes import Shape

SHAPES: Final[Sequence[Shape]] = tuple(
    shape for make in (*arrow_shapes.MAKERS, *java_shapes.MAKERS) for shape in make()
)
