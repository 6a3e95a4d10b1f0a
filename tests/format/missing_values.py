"""Values that stand for no value, of Python and of the libraries that callers use."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

_MASKED = np.ma.array([1, 2], mask=[False, True])

#: What becomes null, by name, besides None.
NULLS: dict[str, Any] = {
    "pandas NA": pd.NA,
    "pandas NaT": pd.NaT,
    "an element of a nullable column": pd.Series([1, None], dtype="Int64")[1],
    "an element of a column of times": pd.Series(pd.to_datetime(["2021-04-01", None]))[1],
    "NumPy NaT": np.datetime64("NaT"),
    "NumPy NaT of nanoseconds": np.datetime64("NaT", "ns"),
    "NumPy NaT of a span": np.timedelta64("NaT"),
    "NumPy masked": np.ma.masked,
    "a masked element": _MASKED[1],
    "a masked array without dimensions": np.ma.array(5, mask=True),
    "pyarrow NA": pa.NA,
    **{
        f"pyarrow null of {of}": pa.scalar(None, of)
        for of in (
            pa.bool_(),
            pa.int32(),
            pa.float64(),
            pa.string(),
            pa.timestamp("ns"),
            pa.decimal128(9, 2),
            pa.date32(),
        )
    },
}
#: What is NaN, by name.
NANS: dict[str, Any] = {
    "float": float("nan"),
    "Decimal": Decimal("NaN"),
    "signaling Decimal": Decimal("sNaN"),
    **{f"NumPy {of.__name__}": of("nan") for of in (np.float16, np.float32, np.float64, np.longdouble)},
    "an element of a column": pd.Series([1.5, None])[1],
    **{f"pyarrow {of}": pa.scalar(float("nan"), of) for of in (pa.float32(), pa.float64())},
}
MISSING = NULLS | {f"NaN, {name}": value for name, value in NANS.items()}
