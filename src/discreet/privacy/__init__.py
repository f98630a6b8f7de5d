"""What a mechanism promises, computed exactly: sensitivity, privacy profiles, composition, calibration.

Nothing here knows about decision problems: a statistic is a vector, a user can move it, noise hides the move.
"""

from discreet.noise.calibration import ShuffledBits, calibrate_binomial, calibrate_noise
from discreet.privacy.profiles import (
    GaussianProfile,
    LossProfile,
    Profile,
    PureProfile,
    ZeroConcentratedProfile,
    compose,
    group,
)
from discreet.privacy.sensitivity import Sensitivity

__all__ = [
    "GaussianProfile",
    "LossProfile",
    "Profile",
    "PureProfile",
    "Sensitivity",
    "ShuffledBits",
    "ZeroConcentratedProfile",
    "calibrate_binomial",
    "calibrate_noise",
    "compose",
    "group",
]
