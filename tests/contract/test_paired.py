"""A side's precision is held against the baseline's on the same inputs."""

from hotkernel_contract.paired import PairedErrors


def row(squared):
    return [0.0, 0.0, 0.0, squared, 1.0, 8.0]


def test_entries_that_only_one_side_answered_weigh_on_neither():
    errors = PairedErrors()
    errors.add("baseline", [0, 1, 2], [row(4.0), row(4.0), row(100.0)])
    errors.add("candidate", [1, 3], [row(9.0), row(10_000.0)])

    candidate, baseline = errors.of("candidate")

    assert (candidate.outputs, candidate.rms_ulps, baseline.rms_ulps) == (1, 3.0, 2.0)


def test_it_does_not_matter_which_side_answers_first():
    first, second = PairedErrors(), PairedErrors()
    for errors, order in ((first, ("baseline", "candidate")), (second, ("candidate", "baseline"))):
        for side in order:
            errors.add(side, [0, 1], [row(1.0 if side == "baseline" else 4.0)] * 2)

    assert [t.rms_ulps for t in first.of("candidate")] == [t.rms_ulps for t in second.of("candidate")] == [2.0, 1.0]


def test_a_new_drawing_does_not_meet_the_entries_of_the_last():
    errors = PairedErrors()
    errors.take(0)
    errors.add("baseline", [0], [row(1.0)])
    errors.take(1)
    errors.add("candidate", [0], [row(50.0)])

    assert errors.of("candidate")[0].outputs == 0


def test_a_drawing_that_comes_again_meets_its_own_entries():
    errors = PairedErrors()
    errors.take(0)
    errors.add("candidate", [0], [row(9.0)])
    errors.take(1)
    errors.add("candidate", [0], [row(100.0)])
    errors.take(0)
    errors.add("baseline", [0], [row(4.0)])

    candidate, baseline = errors.of("candidate")
    assert (candidate.outputs, candidate.rms_ulps, baseline.rms_ulps) == (1, 3.0, 2.0)


def test_the_last_drawing_has_sums_of_its_own_beside_those_of_all():
    errors = PairedErrors()
    for drawing, squared in enumerate((1.0, 9.0)):
        errors.take(drawing)
        errors.add("candidate", [0], [row(squared)])
        errors.add("baseline", [0], [row(1.0)])

    assert [tally.rms_ulps for tally in errors.of("candidate")] == [5.0**0.5, 1.0]
    assert [tally.rms_ulps for tally in errors.of_last("candidate")] == [3.0, 1.0]
