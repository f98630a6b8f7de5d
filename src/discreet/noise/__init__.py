"""Noise laws: each states its exact privacy loss, its exact tails, and can be drawn fast or securely."""

from discreet.noise.discrete_gaussian import DiscreteGaussian
from discreet.noise.discrete_laplace import DiscreteLaplace
from discreet.noise.gaussian import Gaussian
from discreet.noise.kernels import add_noise
from discreet.noise.laplace import Laplace
from discreet.noise.law import Law
from discreet.noise.no_noise import NoNoise

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "Law",
    "NoNoise",
    "add_noise",
]
