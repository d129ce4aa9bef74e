"""Student's t against tables, against its closed forms, and against itself."""

from __future__ import annotations

import math

import pytest

from hotkernel.judge.student import critical, tail

# one-sided chance, degrees of freedom -> t; computed with mpmath 1.4 at 30 digits
TABLE = {
    (0.0005, 2): 31.599054576444,
    (0.0005, 4): 8.6103015813793,
    (0.0005, 29): 3.6594050194663,
    (0.002, 2): 15.76391455204,
    (0.002, 6): 4.524127925171,
    (0.002, 9): 3.8345102695041,
    (0.002, 14): 3.4378666299163,
    (0.01, 2): 6.9645567342833,
    (0.01, 4): 3.7469473879792,
    (0.01, 6): 3.142668403291,
    (0.01, 9): 2.8214379250258,
    (0.01, 29): 2.4620213601504,
}
# the three decimals that every printed table has
PRINTED = {(0.05, 1): 6.314, (0.025, 5): 2.571, (0.005, 10): 3.169, (0.025, 30): 2.042, (0.01, 120): 2.358}


@pytest.mark.parametrize(("alpha", "degrees"), TABLE)
def test_critical_values_agree_with_the_table_to_eight_digits(alpha, degrees):
    assert critical(alpha, degrees) == pytest.approx(TABLE[alpha, degrees], rel=1e-11)
    assert tail(TABLE[alpha, degrees], degrees) == pytest.approx(alpha, abs=1e-8, rel=1e-8)


@pytest.mark.parametrize(("alpha", "degrees"), PRINTED)
def test_critical_values_agree_with_printed_tables(alpha, degrees):
    assert critical(alpha, degrees) == pytest.approx(PRINTED[alpha, degrees], abs=5e-4)


@pytest.mark.parametrize("t", [-40.0, -2.0, -1e-9, 0.0, 1e-9, 0.1, 0.999, 1.001, 3.0, 31.6, 5000.0])
def test_tails_of_one_two_and_three_degrees_agree_with_their_closed_forms(t):
    root3 = math.sqrt(3)
    assert tail(t, 1) == pytest.approx(math.atan2(1, t) / math.pi, rel=1e-10)
    two = 1 / (2 + t * t + t * math.sqrt(2 + t * t)) if t > 0 else 0.5 - t / (2 * math.sqrt(2 + t * t))
    assert tail(t, 2) == pytest.approx(two, rel=1e-10)
    three = 0.5 - (math.atan(t / root3) + root3 * t / (3 + t * t)) / math.pi
    assert tail(t, 3) == pytest.approx(three, abs=1e-13)


def test_many_degrees_of_freedom_come_to_the_normal_distribution():
    assert tail(2.0, 1e7) == pytest.approx(0.5 * math.erfc(2 / math.sqrt(2)), rel=1e-6)


def test_a_critical_value_has_its_own_tail_everywhere():
    for degrees in (1, 2, 3, 7, 40, 399):
        for alpha in (1e-9, 1e-4, 0.0055, 0.3, 0.5, 0.7, 0.995):
            assert tail(critical(alpha, degrees), degrees) == pytest.approx(alpha, rel=1e-9)


def test_what_is_no_chance_or_no_distribution_is_refused():
    for alpha in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="chance"):
            critical(alpha, 3)
    for degrees in (0, -1, math.nan):
        with pytest.raises(ValueError, match="degrees"):
            tail(1.0, degrees)
