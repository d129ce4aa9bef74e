"""Student's t distribution, its upper tail and its critical values, to ten digits; nothing else of statistics."""

from __future__ import annotations

import functools
import math

MAX_TERMS = 10_000  # the fraction needs some sqrt(degrees) terms: a million degrees of freedom still end in time
TINY = 1e-300  # stands for a zero denominator in the fraction (modified Lentz)
RELATIVE_ERROR = 1e-14  # ten digits are asked for; at 1e-15 rounding could keep it from ever ending


def tail(t: float, degrees: float) -> float:
    """The chance that a t variable of `degrees` degrees of freedom exceeds `t`."""
    if not degrees > 0:
        raise ValueError(f"a t distribution with {degrees} degrees of freedom")
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    square = t * t
    half = 0.5 * _beta_share(degrees / 2, 0.5, degrees / (degrees + square), square / (degrees + square))
    return half if t >= 0 else 1.0 - half


@functools.lru_cache(maxsize=4096)
def critical(alpha: float, degrees: float) -> float:
    """The value that a t variable exceeds with chance `alpha`."""
    if not 0 < alpha < 1:
        raise ValueError(f"a chance of {alpha}")
    if alpha > 0.5:
        return -critical(1.0 - alpha, degrees)
    low, high = 0.0, 1.0
    while tail(high, degrees) > alpha:
        low, high = high, 2.0 * high
    while high - low > 4e-16 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if tail(middle, degrees) > alpha:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_share(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function at `x`; `rest` is 1 - x, given apart to lose no digits."""
    if x <= 0:
        return 0.0
    if rest <= 0:
        return 1.0
    log_front = a * math.log(x) + b * math.log(rest) - (math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b))
    if x < (a + 1) / (a + b + 2):  # the fraction converges fast on this side of the mean only
        return math.exp(log_front) * _fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    upper, lower = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    value = lower
    for term in range(1, MAX_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for step in (even, odd):
            lower = 1.0 / _not_zero(1.0 + step * lower)
            upper = _not_zero(1.0 + step / upper)
            value *= upper * lower
        if abs(upper * lower - 1.0) < RELATIVE_ERROR:
            return value
    raise ArithmeticError(f"the incomplete beta fraction did not converge at a={a} b={b} x={x}")


def _not_zero(number: float) -> float:
    return number if abs(number) > TINY else TINY
