"""Filters of rows: built in Python, or of text or JSON; bound to a schema, and judged on partitions and bounds.

    from iceberg_hms.expressions import col, parse

    (col("level") == "ERROR") & col("event_time").is_null()
    parse("level = 'ERROR' and event_time is null")

They follow SQL: a comparison with null does not match, and neither does its negation. docs/expressions.md has more.
"""

from iceberg_hms.expressions.expression import ALWAYS_FALSE, ALWAYS_TRUE, Expression, col
from iceberg_hms.expressions.text import as_expression, parse

__all__ = ["ALWAYS_FALSE", "ALWAYS_TRUE", "Expression", "as_expression", "col", "parse"]
