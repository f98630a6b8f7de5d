"""Noise laws: each states its exact privacy loss, its exact tails, and can be drawn fast or securely."""

from discreet.noise.binomial import BinomialNoise
from discreet.noise.bounded import BoundedNoise
from discreet.noise.discrete_gaussian import DiscreteGaussian, GridGaussian
from discreet.noise.distribution import AnytimeLaw, Law, NoNoise, add_noise
from discreet.noise.gaussian import Gaussian
from discreet.noise.knorm import DiscreteKNorm, KNorm
from discreet.noise.laplace import DiscreteLaplace, Laplace
from discreet.noise.randomized_response import KaryRandomizedResponse, RandomizedResponse, UnaryEncoding, add_report

__all__ = [
    "AnytimeLaw",
    "BinomialNoise",
    "BoundedNoise",
    "DiscreteGaussian",
    "DiscreteKNorm",
    "DiscreteLaplace",
    "Gaussian",
    "GridGaussian",
    "KNorm",
    "KaryRandomizedResponse",
    "Laplace",
    "Law",
    "NoNoise",
    "RandomizedResponse",
    "UnaryEncoding",
    "add_noise",
    "add_report",
]
