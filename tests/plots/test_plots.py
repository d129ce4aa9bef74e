"""Claims about the plots: well-formed, nothing outside the frame, what must be read off them is there in words."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import pytest

from hotkernel.judge import gpu_specs
from hotkernel.judge.roofline import roofline as roofs_of
from hotkernel.plots import attempts as attempts_plot
from hotkernel.plots import roofline as roofline_plot
from hotkernel.plots.canvas import MARKER, VERDICT, Sheet
from hotkernel.schema.report import Attempt
from hotkernel.schema.roofline import MeasuredPeaks, PlottedKernel
from hotkernel.schema.verdict import VerdictKind

pytest.importorskip("matplotlib", reason="matplotlib is the extra `plot`")

SHEET = Sheet(4.6, 3.2, 9.5)
H200 = gpu_specs.table()["h200sxm"]
MEASURED = MeasuredPeaks(4300.0, 790.0, "x")
KERNELS = (PlottedKernel("baseline <eager & $slow$>", 2.7e8, 1.34e8, 0.4635), PlottedKernel("matmul", 1.7e10, 2.5e7, 0.0252))
TRIES = (Attempt(1, VerdictKind.INCONCLUSIVE, 0.999, (0.995, 1.002), False, 290.0),
         Attempt(2, VerdictKind.FASTER, 12.4, (12.2, 12.7), True, 3600.0),
         Attempt(3, VerdictKind.INCORRECT, None, None, False),
         Attempt(4, VerdictKind.SLOWER, 0.01, None, False, 2.9))


def texts(svg: bytes) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_roofline_is_well_formed_svg_with_both_roofs_and_every_kernel_as_text():
    told = texts(roofline_plot.roofline(roofs_of(H200, None, None, "bf16", MEASURED), KERNELS, SHEET, "svg", title="a <b>"))

    assert "baseline <eager & $slow$>" in told
    assert "matmul" in told
    assert "a <b>" in told
    assert "measured: 790 TFLOP/s, 4300 GB/s" in told
    assert any(text.startswith("data sheet: 989") for text in told)


@pytest.mark.parametrize("key", ["h200sxm", "t4", "gb10", "jetsonorin"])
def test_everything_on_the_roofline_lies_inside_its_frame(key):
    roofs = roofs_of(gpu_specs.table()[key], None, None, "fp32")
    kernels = (*KERNELS, PlottedKernel("slow", 1.0, 1e9, 1e3), PlottedKernel("dense", 1e15, 1e3, 1e-3))
    frame = roofline_plot.Frame.around(roofs, kernels)

    for each in kernels:
        assert frame.x[0] <= each.flops / each.bytes <= frame.x[1]
        assert 0 <= frame.height(roofline_plot.tflops(each)) <= 1
    assert frame.height(roofs.peak_tflops) < 1


def test_kernels_that_lie_on_each_other_share_one_label():
    close = [PlottedKernel(f"#{number}", 2.7e8, 1.34e8, 0.037 + number * 1e-5) for number in range(4)]
    frame = roofline_plot.Frame.around(roofs_of(H200, None, None, "bf16"), [*KERNELS, *close])

    assert [len(group) for group in roofline_plot.grouped([*KERNELS, *close], frame)] == [1, 4, 1]
    many = [PlottedKernel(f"#{number}", 2.7e8, 1.34e8, 0.037) for number in range(20)]
    told = texts(roofline_plot.roofline(roofs_of(H200, None, None, "bf16"), many, SHEET, "svg"))
    assert any("#0, #1, #2" in text for text in told)
    assert any("and 12 more" in text for text in told)


def test_with_a_key_the_dots_are_numbers_and_the_names_stand_beside_them():
    told = texts(roofline_plot.roofline(roofs_of(H200, None, None, "bf16"), KERNELS, SHEET, "svg", key=True))

    assert {f"{number} {each.name}" for number, each in enumerate(KERNELS, 1)} <= {" ".join(text.split()) for text in told}
    assert not {each.name for each in KERNELS} & set(told)


def test_without_a_roof_there_is_no_roofline():
    with pytest.raises(ValueError, match="fp4"):
        roofline_plot.roofline(roofs_of(gpu_specs.table()["t4"], None, None, "fp4"), (), SHEET, "svg")


def test_bandwidths_name_what_they_are_held_against():
    told = texts(roofline_plot.bandwidths(TRIES, 289.0, 4800.0, 3890.0, SHEET, "svg"))

    assert {"baseline", "#1", "#2", "#4", "data sheet: 4800 GB/s", "measured: 3890 GB/s"} <= set(told)
    assert "#3" not in told  # an incorrect one has no time


def test_every_verdict_has_a_mark_of_its_own_beside_its_colour():
    assert set(VERDICT) == set(MARKER) == {kind.value for kind in VerdictKind}
    assert len(set(MARKER.values())) == len(set(VERDICT.values())) == 5


def test_the_attempts_plot_says_each_verdict_and_numbers_each_attempt():
    told = texts(attempts_plot.attempts(TRIES, SHEET, "svg"))

    assert {"faster", "slower", "incorrect", "inconclusive", "best so far", "#1", "#2", "#3", "#4", "1×"} <= set(told)


@pytest.mark.parametrize("tries", [TRIES[:1], TRIES[2:3], TRIES, TRIES * 30])
def test_every_interval_and_the_baseline_lie_on_the_axis(tries):
    low, high = attempts_plot.limits(tries)
    ticks = attempts_plot.ticks(low, high)

    assert all(low < end < high for each in tries for end in (each.speedup, *(each.interval or ())) if end)
    assert low < 1 < high
    assert 1.0 in ticks
    assert 2 <= len(ticks) <= 20
    assert attempts_plot.attempts(tries, SHEET, "svg").startswith(b"<svg ")


def test_two_plots_of_one_page_share_no_id():
    ids = [set(re.findall(rb'\bid="([^"]+)"', attempts_plot.attempts(TRIES, SHEET, "svg", name=name))) for name in ("a", "b")]

    assert ids[0]
    assert not ids[0] & ids[1]


def test_the_same_plot_again_is_the_same_bytes_and_asks_for_nothing():
    svg = attempts_plot.attempts(TRIES, SHEET, "svg")

    assert svg == attempts_plot.attempts(TRIES, SHEET, "svg")
    assert not re.search(rb'(?:href|src)="(?!#)|url\((?!#)|@import|<script|<\?xml|<!DOCTYPE', svg)


def test_a_pages_colours_are_its_own_with_the_plots_to_fall_back_on():
    svg = attempts_plot.attempts(TRIES, SHEET, "svg").decode()

    assert f"var(--faster, {VERDICT['faster']})" in svg
    assert not re.search(rf"(?<!, )(?:{'|'.join(VERDICT.values())})", svg)


def test_a_png_is_a_picture_under_a_megabyte():
    image = pytest.importorskip("PIL.Image", reason="Pillow comes with matplotlib")
    content = roofline_plot.roofline(roofs_of(H200, None, None, "bf16", MEASURED), KERNELS, Sheet(9.6, 6.0, 11.0), "png")
    opened = image.open(io.BytesIO(content))

    assert len(content) < 1_000_000
    assert (opened.format, opened.size) == ("PNG", (1920, 1200))
