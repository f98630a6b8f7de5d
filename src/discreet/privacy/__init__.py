"""What a mechanism promises, computed exactly: sensitivity, privacy profiles, composition.

Nothing here knows about decision problems: a statistic is a vector, a user can move it, noise hides the move. How much
noise keeps a promise is computed by :mod:`discreet.noise.calibration`.
"""

from discreet.privacy.profiles import (
    BoundedProfile,
    GaussianProfile,
    LossProfile,
    NearGaussianProfile,
    Profile,
    PureProfile,
    ZeroConcentratedProfile,
    compose,
    replacing_users,
)
from discreet.privacy.sensitivity import Sensitivity

__all__ = [
    "BoundedProfile",
    "GaussianProfile",
    "LossProfile",
    "NearGaussianProfile",
    "Profile",
    "PureProfile",
    "Sensitivity",
    "ZeroConcentratedProfile",
    "compose",
    "replacing_users",
]
