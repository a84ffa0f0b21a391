"""The keyed generator that both sides of the comparison draw parameters and data from.

A number depends on (seed, name, element index) alone, so neither the order of drawing nor the way
a parameter is cut over ranks can change it, and no parameter has to be shipped with the fixtures.
splitmix64 is Vigna's finaliser of Steele, Lea and Flood's generator, fnv1a64 is Fowler, Noll and
Vo's hash; the normal is the cosine half of Box and Muller's transform.
"""

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = (1 << 64) - 1


def splitmix64(x):
    """Elementwise on an array of uint64; arithmetic wraps at 2^64."""
    x = np.asarray(x, dtype=np.uint64) + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def fnv1a64(name):
    value = _FNV_OFFSET
    for byte in name.encode("utf-8"):
        value = ((value ^ byte) * _FNV_PRIME) & _MASK
    return value


def tensor_key(seed, name):
    return splitmix64(np.array([(seed ^ fnv1a64(name)) & _MASK], dtype=np.uint64))


def keyed_u64(seed, name, indices):
    """Raw 64 bits of each element index (array of uint64)."""
    return splitmix64(tensor_key(seed, name) + np.asarray(indices, dtype=np.uint64) * _GOLDEN)


def _unit(bits):
    """[0, 1) with 53 bits."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniform(seed, name, count, first=0):
    return _unit(keyed_u64(seed, name, np.arange(first, first + count, dtype=np.uint64)))


def normal(seed, name, count, first=0):
    indices = np.arange(first, first + count, dtype=np.uint64) * np.uint64(2)
    radius = np.sqrt(-2.0 * np.log(1.0 - _unit(keyed_u64(seed, name, indices))))
    return radius * np.cos(2.0 * np.pi * _unit(keyed_u64(seed, name, indices + np.uint64(1))))


def integers(seed, name, count, first, bound):
    indices = np.arange(first, first + count, dtype=np.uint64)
    return (keyed_u64(seed, name, indices) % np.uint64(bound)).astype(np.int64)


# Every kind of parameter gets values away from the usual zeros and ones, so that no gradient is
# trivial by accident of the initialisation.
WEIGHT_STD = 0.05
BIAS_RANGE = 0.05
NORM_RANGE = 0.1


def initial_value(seed, name, count):
    """Initial float64 values of a parameter, flat in row-major order; the rule follows its name."""
    module, kind = name.split(".")[-2:]
    is_norm = "norm" in module
    if kind == "weight" and not is_norm:
        return WEIGHT_STD * normal(seed, name, count)
    spread = (2.0 * uniform(seed, name, count) - 1.0) * (NORM_RANGE if is_norm else BIAS_RANGE)
    return 1.0 + spread if kind == "weight" else spread
