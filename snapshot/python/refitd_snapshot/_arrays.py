"""The arrays of this package."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indexes = npt.NDArray[np.int64]


def frozen(array: Any) -> Array:
    """Returns an array of doubles that cannot be written to."""
    out: Array = np.ascontiguousarray(array, dtype=np.float64)
    out.flags.writeable = False
    return out
