"""The arrays that the package passes around, by what they hold.

numpy.typing takes a while to import and is for type checkers; running code makes do with the class of arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
else:
    ArrayLike, NDArray = Any, np.ndarray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

__all__ = ["ArrayLike", "Floats", "Integers", "Mask", "NDArray"]
