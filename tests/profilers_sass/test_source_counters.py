"""A real report through NVIDIA's ncu_report, held against ncu's own source page of the same launch."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path

import pytest
from sass_files import public, source_rows, unpacked

from hotkernel.errors import ToolError
from hotkernel.machine.process import Job
from hotkernel.machine.source_report import SourceReport
from hotkernel.profilers import source_counters
from hotkernel.schema.explanation import ProfiledKernel, SampledInstruction, SourcePlace

pytest.importorskip("ncu_report", reason="needs NVIDIA's ncu-report")

# ncu's page abbreviates the reasons.
COLUMNS = {
    "long_scoreboard": "stall_long_sb",
    "short_scoreboard": "stall_short_sb",
    "barrier": "stall_barrier",
    "drain": "stall_drain",
    "wait": "stall_wait",
    "no_instructions": "stall_no_inst",
    "imc_miss": "stall_imc",
    "math_pipe_throttle": "stall_math",
    "mio_throttle": "stall_mio",
    "lg_throttle": "stall_lg",
    "selected": "stall_selected",
    "not_selected": "stall_not_selected",
    "dispatch_stall": "stall_dispatch",
    "branch_resolving": "stall_branch_resolving",
}


@pytest.fixture(scope="module")
def rmsnorm(tmp_path_factory: pytest.TempPathFactory) -> ProfiledKernel:
    opened = SourceReport.open(Job(), unpacked("rms_full.ncu-rep", tmp_path_factory.mktemp("report")))
    return opened.kernel(opened.launches[0], source_counters.METRICS)


def number(text: str) -> int:
    return int(text) if text not in ("", "-") else 0


def test_each_instructions_counters_are_those_of_ncus_source_page(rmsnorm: ProfiledKernel) -> None:
    rows = source_rows()
    base = int(rows[0]["Address"], 16)
    listed = {int(row["Address"], 16) - base: row for row in rows}

    assert len(rmsnorm.instructions) == 310  # 309 that ran, and one behind the end where warps drain
    for each in rmsnorm.instructions:
        row = listed[each.address]
        assert each.samples == number(row["# Samples"])
        assert (each.executed or 0) == number(row["Instructions Executed"])
        assert (each.threads or 0) == number(row["Thread Instructions Executed"])
        assert (each.sectors or 0) == number(row["L2 Theoretical Sectors Global"])
        assert (each.wavefronts or 0) == number(row["L1 Wavefronts Shared"])
        assert each.stalls == {reason: number(row[column]) for reason, column in COLUMNS.items() if number(row[column])}


def test_no_sample_of_the_source_page_is_lost(rmsnorm: ProfiledKernel) -> None:
    assert sum(each.samples or 0 for each in rmsnorm.instructions) == sum(
        number(row["# Samples"]) for row in source_rows()
    )


def test_the_figures_are_the_reports(rmsnorm: ProfiledKernel) -> None:
    numbers = source_counters.figures(rmsnorm)

    assert numbers.duration_us == 31.968
    assert numbers.registers == 64
    assert numbers.dram_read_bytes == 67135488
    assert numbers.warp_instructions == sum(each.executed or 0 for each in rmsnorm.instructions) == 10125312
    assert (rmsnorm.device, rmsnorm.grid, rmsnorm.block) == ("NVIDIA H200", "4096x1x1", "256x1x1")
    assert numbers.dram_pct == pytest.approx(71.757, abs=1e-3)


def test_the_hottest_line_is_the_python_line_of_the_load_with_its_text(rmsnorm: ProfiledKernel) -> None:
    lines, n_lines = source_counters.hot_lines(rmsnorm)

    first = lines[0]
    assert first.file is not None
    assert first.file.endswith("rmsnorm_triton.py")
    assert first.line == 7
    assert first.source == "x = tl.load(X + row * stride + cols, mask=mask, other=0.0).to(tl.float32)"
    assert (first.samples, first.stalls[0].reason, first.stalls[0].samples) == (2202, "long_scoreboard", 2023)
    assert n_lines == 10
    assert [line.samples for line in lines] == sorted((line.samples for line in lines), reverse=True)


def test_an_instruction_that_waits_names_the_load_that_it_waits_for(rmsnorm: ProfiledKernel) -> None:
    lines, _ = source_counters.hot_lines(rmsnorm)

    waiting = {each.sass: each.waits_for for line in lines for each in line.instructions}
    assert waiting["PRMT R30, R12, 0x7632, R30"] == "0x00e0 LDG.E.128 (rmsnorm_triton.py:7)"
    assert waiting["PRMT R38, R20, 0x7632, R38"] == "0x0130 LDG.E.128 (rmsnorm_triton.py:7)"
    assert waiting["FADD R25, R26, R25"] == "0x0950 SHFL.BFLY (standard.py:293)"


def test_lines_and_reasons_hold_every_sample_once(rmsnorm: ProfiledKernel) -> None:
    places = Counter((each.place.file, each.place.line) for each in rmsnorm.instructions if each.place and each.samples)
    _, n_lines = source_counters.hot_lines(rmsnorm)

    assert n_lines == len(places)
    assert sum(share.samples for share in source_counters.stalls(rmsnorm.instructions)) == 3759


def test_a_memory_bound_kernel_is_said_to_be_one(rmsnorm: ProfiledKernel) -> None:
    lines, _ = source_counters.hot_lines(rmsnorm)

    found = {each.rule: each.text for each in source_counters.find(rmsnorm, source_counters.figures(rmsnorm), lines)}

    assert found["bound"].startswith("memory bound (DRAM 72 %")
    assert "4 blocks a multiprocessor, limited by registers" in found["occupancy"]
    assert "spills" not in found
    assert "uncoalesced" not in found


def made(**counters: object) -> SampledInstruction:
    row = SampledInstruction(
        0, "LDG.E R0, desc[UR4][R2.64]", SourcePlace("a.py", 1), 100, 3200, 10, {"long_scoreboard": 10}
    )
    return dataclasses.replace(row, **counters)  # type: ignore[arg-type]


def kernel_of(*instructions: SampledInstruction, **metrics: float) -> ProfiledKernel:
    return ProfiledKernel(
        "k", None, metrics, tuple(dataclasses.replace(each, address=16 * at) for at, each in enumerate(instructions))
    )


def rules_of(kernel: ProfiledKernel) -> dict[str, str]:
    lines, _ = source_counters.hot_lines(kernel)
    return {each.rule: each.text for each in source_counters.find(kernel, source_counters.figures(kernel), lines)}


def test_sectors_beyond_the_fewest_are_uncoalesced_at_the_worst_line() -> None:
    good = made(sectors=100, ideal_sectors=100)
    bad = made(sectors=800, ideal_sectors=100, place=SourcePlace("a.py", 2))

    assert "most at a.py:2" in rules_of(kernel_of(good, bad))["uncoalesced"]
    assert "uncoalesced" not in rules_of(kernel_of(good, good))


def test_wavefronts_beyond_the_fewest_are_bank_conflicts() -> None:
    assert (
        "88 %" in rules_of(kernel_of(made(sass="LDS R0, [R2]", wavefronts=800, ideal_wavefronts=100)))["bank-conflicts"]
    )


def test_executed_spills_are_told_with_their_share() -> None:
    kernel = kernel_of(
        made(sass="LDL R0, [R1+0x8]", executed=50),
        made(sass="FADD R0, R0, R0", executed=150),
        **{"inst_executed": 200.0},
    )

    assert "50 loads and stores, 25.0 % of executed instructions" in rules_of(kernel)["spills"]


def test_half_empty_warps_are_divergence() -> None:
    assert "16.0 of 32" in rules_of(kernel_of(made(threads=1600)))["divergence"]


def test_without_line_information_each_instruction_is_its_own_line() -> None:
    opened = SourceReport.open(Job(), public("ncu_rep") / "sm120_shared_memory.ncu-rep")
    kernel = opened.kernel(opened.launches[0], source_counters.METRICS)

    lines, n_lines = source_counters.hot_lines(kernel)

    assert n_lines == 4
    assert {(line.file, line.line, line.source) for line in lines} == {(None, None, None)}
    assert all(len(line.instructions) == 1 for line in lines)
    assert source_counters.figures(kernel).duration_us == 2.752


def test_reports_of_other_cards_give_their_right_durations() -> None:
    folder = public("ncu_rep")

    durations = {
        name: [each.duration_us for each in SourceReport.open(Job(), folder / name).launches]
        for name in ("esmm_profile_small.ncu-rep", "mojo_sm.ncu-rep")
    }

    assert durations["esmm_profile_small.ncu-rep"] == [139914.24, 90892.608, 90236.288, None]  # NaN is not known
    assert sorted(each or 0 for each in durations["mojo_sm.ncu-rep"]) == [1.472, 1.504, 1.568, 1.6]


def test_what_is_no_whole_report_is_refused_and_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    whole = unpacked("rms_full.ncu-rep", tmp_path).read_bytes()
    right = {
        0: "is not a report",
        3: "is not a report",
        5000: "holds no launch",
        len(whole) // 2: "is damaged",
        len(whole) - 10: "holds no launch",
    }

    for size, message in right.items():
        path = tmp_path / f"cut{size}.ncu-rep"
        path.write_bytes(whole[:size])
        with pytest.raises(ToolError, match=message):
            SourceReport.open(Job(), path)


def test_the_sources_of_the_report_are_text(rmsnorm: ProfiledKernel) -> None:
    assert "tl.store(Y + row * stride + cols" in json.dumps(rmsnorm.sources)
