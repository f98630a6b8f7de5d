"""Noise laws: each states its exact privacy loss, its exact tails, and can be drawn fast or securely."""

from discreet.linear.symmetric_matrix import DiscreteSymmetricGaussianMatrix, SymmetricGaussianMatrix
from discreet.noise.binomial import BinomialNoise
from discreet.noise.bounded import BoundedNoise
from discreet.noise.discrete_gaussian import DiscreteGaussian
from discreet.noise.discrete_laplace import DiscreteLaplace
from discreet.noise.gaussian import Gaussian
from discreet.noise.grid_gaussian import GridGaussian
from discreet.noise.kernels import add_noise
from discreet.noise.knorm import DiscreteKNorm, KNorm
from discreet.noise.laplace import Laplace
from discreet.noise.law import Law
from discreet.noise.no_noise import NoNoise
from discreet.noise.responses import KaryRandomizedResponse, RandomizedResponse, UnaryEncoding, add_report

__all__ = [
    "BinomialNoise",
    "BoundedNoise",
    "DiscreteGaussian",
    "DiscreteKNorm",
    "DiscreteLaplace",
    "DiscreteSymmetricGaussianMatrix",
    "Gaussian",
    "GridGaussian",
    "KNorm",
    "KaryRandomizedResponse",
    "Laplace",
    "Law",
    "NoNoise",
    "RandomizedResponse",
    "SymmetricGaussianMatrix",
    "UnaryEncoding",
    "add_noise",
    "add_report",
]
