"""What changed between two profiles, on launches of real reports."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from sass_files import public, unpacked

from hotkernel.machine.process import Job
from hotkernel.machine.source_report import SourceReport
from hotkernel.profilers import profile_difference, source_counters
from hotkernel.profilers.profile_difference import Profile
from hotkernel.schema.explanation import Difference, ProfileFigures, StallShare

pytest.importorskip("ncu_report", reason="needs NVIDIA's ncu-report")


def profile(path: Path, at: int) -> Profile:
    opened = SourceReport.open(Job(), path)
    kernel = opened.kernel(opened.launches[at], source_counters.METRICS)
    return Profile(
        kernel.name, kernel.device, source_counters.figures(kernel), source_counters.stalls(kernel.instructions)
    )


def figures_of(difference: Difference) -> dict[str, tuple[float | None, float | None]]:
    return {each.figure: (each.before, each.after) for each in difference.changes}


def test_the_speedup_is_the_ratio_of_the_two_durations() -> None:
    report = public("ncu_rep") / "esmm_profile_small.ncu-rep"
    before, after = profile(report, 0), profile(report, 1)

    found = profile_difference.compare(before, after, report="r")

    assert found.speedup == 139914.24 / 90892.608
    assert found.why.startswith(
        "esmm_shmem_multi2 against esmm_shmem_multi: 139,914 us to 90,893 us under the profiler, 1.54x faster"
    )
    assert figures_of(found)["registers"] == (before.figures.registers, after.figures.registers)


def test_turned_round_the_sentence_says_slower() -> None:
    report = public("ncu_rep") / "esmm_profile_small.ncu-rep"

    assert "1.54x slower" in profile_difference.compare(profile(report, 1), profile(report, 0), report="r").why


def test_a_profile_against_itself_has_changed_in_nothing(tmp_path: Path) -> None:
    one = profile(unpacked("rms_full.ncu-rep", tmp_path), 0)

    found = profile_difference.compare(one, one, report="r")

    assert found.speedup == 1.0
    assert {each.change_pct for each in found.changes} <= {0.0, None}
    assert found.why.endswith("as fast; no other figure that both reports hold moved by 5 % or more")


def test_what_one_report_lacks_is_null_and_not_in_the_sentence(tmp_path: Path) -> None:
    sparse = profile(public("ncu_rep") / "mojo_sm.ncu-rep", 0)
    full = profile(unpacked("rms_full.ncu-rep", tmp_path), 0)

    found = profile_difference.compare(sparse, full, report="r")

    (row,) = [each for each in found.changes if each.figure == "dram_bytes"]
    assert (row.before, row.change_pct) == (None, None)
    assert "DRAM bytes" not in found.why
    assert found.stalls == ()


def test_a_launch_without_a_duration_has_no_speedup() -> None:
    report = public("ncu_rep") / "esmm_profile_small.ncu-rep"

    found = profile_difference.compare(profile(report, 0), profile(report, 3), report="r")

    assert found.speedup is None
    assert "holds no duration" in found.why


def made(stall_pct: float = 50.0, **numbers: float) -> Profile:
    figures = ProfileFigures(
        duration_us=100.0,
        dram_read_bytes=2e8,
        dram_write_bytes=1e8,
        warp_instructions=1e7,
        registers=64,
        local_load_instructions=0,
        local_store_instructions=0,
    )
    stalls = (
        StallShare("long_scoreboard", int(stall_pct), stall_pct),
        StallShare("wait", int(100 - stall_pct), 100 - stall_pct),
    )
    return Profile("k", "card", dataclasses.replace(figures, **numbers), stalls)


def test_the_sentence_names_bytes_instructions_spills_and_stalls_that_moved_and_no_others() -> None:
    after = made(30.0, duration_us=50.0, dram_read_bytes=1e8, dram_write_bytes=5e7, local_load_instructions=4e5)

    why = profile_difference.compare(made(), after, report="r").why

    assert why == (
        "k: 100 us to 50 us under the profiler, 2.00x faster; DRAM bytes 300 MB to 150 MB (-50 %); "
        "spill loads and stores 0 to 400,000; stalls: long_scoreboard 50 to 30 %, wait 50 to 70 %"
    )


def test_a_fusion_shows_in_the_sum_over_all_kernels() -> None:
    before = dataclasses.replace(made(), kernels=5, one_of_each_us=310.0)
    after = dataclasses.replace(made(), kernels=1, one_of_each_us=100.0)

    found = profile_difference.compare(before, after, report="r")

    assert "5 with 310 us to 1 with 100 us" in found.why
    assert (found.kernels_before, found.one_of_each_after_us) == (5, 100.0)


def test_the_sentence_fits_into_a_records_note() -> None:
    names = {field.name: 1e12 for field in dataclasses.fields(ProfileFigures)}
    long = dataclasses.replace(made(), name="k" * 200, figures=ProfileFigures(**names))

    assert len(profile_difference.compare(made(99.0), long, report="r").why) <= profile_difference.WHY_LIMIT
