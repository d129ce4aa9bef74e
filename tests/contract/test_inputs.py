"""The mixture that inputs are drawn from hides no shortcut: every kind of row occurs, and seeds reproduce it."""

from __future__ import annotations

import pytest
import torch

from hotkernel_contract.inputs import HUGE, SCALE_EXPONENT, SHIFT, TINY, draw, draw_one, nearly_copy
from hotkernel_contract.target import Input, Target

ROWS, COLUMNS = 1024, 256


def seeded(seed: int = 7) -> torch.Generator:
    generator = torch.Generator(device="cpu")
    generator.manual_seed(seed)
    return generator


def streamed(dtype: torch.dtype = torch.float32, rows: int = ROWS, seed: int = 7) -> torch.Tensor:
    return draw_one(Input("x", (rows, COLUMNS), dtype), seeded(seed), "cpu")


def kinds_of(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Which rows are plainly of a kind, told from the numbers alone."""
    rms = x.pow(2).mean(-1).sqrt()
    signs = torch.sign(x)
    alternating = (signs[:, :-1] == -signs[:, 1:]).all(-1)
    return {
        "zero": (x == 0).all(-1),
        "constant": (x == x[:, :1]).all(-1) & (x[:, 0] != 0),
        "tiny": (rms > 0) & (rms < 10 * TINY),
        "alternating": alternating,
        "spiked": (x.abs() == HUGE).sum(-1) == 1,
        "large": (rms > 8) & ((x.abs() == HUGE).sum(-1) == 0),
        "small": (rms > 2 * 2.0**-SCALE_EXPONENT) & (rms < 0.1),
        "shifted up": (x.mean(-1) > SHIFT / 2) & (rms < 2 * SHIFT) & (x.std(-1) > 0.5),
        "shifted down": (x.mean(-1) < -SHIFT / 2) & (rms < 2 * SHIFT) & (x.std(-1) > 0.5),
        "heavy-tailed": x.abs().amax(-1) / rms > 6,
        "normal": (rms > 0.8) & (rms < 1.2) & (x.mean(-1).abs() < 0.3),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_kind_of_row_occurs_in_one_drawing(dtype):
    kinds = kinds_of(streamed(dtype).float())

    assert {name: int(rows.sum()) for name, rows in kinds.items() if not rows.any()} == {}


def test_most_rows_are_ordinary():
    assert kinds_of(streamed())["normal"].float().mean() > 0.6


def test_one_seed_gives_one_drawing_and_another_seed_another():
    assert torch.equal(streamed(seed=3), streamed(seed=3))
    assert not torch.equal(streamed(seed=3), streamed(seed=4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_the_extremes_are_bounded_and_finite_in_every_dtype(dtype):
    x = streamed(dtype).double()

    assert torch.isfinite(x).all()
    assert x.abs().max() <= 2.0**SCALE_EXPONENT * 8


def test_special_rows_lie_elsewhere_in_every_drawing():
    places = {tuple(kinds_of(streamed(seed=seed))["zero"].nonzero().flatten().tolist()) for seed in range(6)}

    assert len(places) == 6


def test_normal_rows_alone_are_had_by_declaring_it():
    x = draw_one(Input("x", (ROWS, COLUMNS), torch.float32), seeded(), "cpu", mixture="normal")

    assert x.abs().max() < 8
    assert kinds_of(x)["normal"].float().mean() > 0.95


def test_a_few_rows_are_still_drawn():
    assert streamed(rows=1).shape == (1, COLUMNS)
    assert torch.isfinite(streamed(rows=15)).all()


def test_a_weight_holds_zeros_and_both_signs():
    w = draw_one(Input("w", (4096,), torch.float32), seeded(), "cpu", streams=False)

    assert 0 < int((w == 0).sum()) < 100
    assert (w < 0).any()
    assert (w > 0).any()


@pytest.mark.parametrize(("dtype", "high"), [(torch.int64, 32000), (torch.int32, 7), (torch.uint8, 256), (torch.int8, 128)])
def test_integers_fill_their_range_and_stay_in_it(dtype, high):
    x = draw_one(Input("at", (200_000,), dtype, high), seeded(), "cpu")

    assert x.dtype is dtype
    assert int(x.min()) >= 0
    assert int(x.max()) < high
    assert len(x.unique()) > 0.99 * high


def test_booleans_are_even():
    x = draw_one(Input("mask", (10_000,), torch.bool), seeded(), "cpu")

    assert x.dtype is torch.bool
    assert 0.45 < x.float().mean() < 0.55


def test_only_the_asked_inputs_are_drawn():
    target = Target(name="t", function=lambda x, w: x * w, inputs={"x": "8x4", "w": "4"}, dtype="fp32")

    assert set(draw(target, seeded(), "cpu", ("w",))) == {"w"}


@pytest.mark.parametrize("spec", [
    Input("x", (64, 64), torch.float32), Input("x", (64, 64), torch.bfloat16), Input("x", (64, 64), torch.bool),
    Input("x", (64, 64), torch.int64, 1000), Input("x", (64, 64), torch.uint8, 2), Input("x", (64, 64), torch.uint8, 256),
])
def test_a_near_copy_differs_in_one_to_four_elements(spec):
    generator = seeded()
    x = draw_one(spec, generator, "cpu")
    differing = [int((nearly_copy(x, generator) != x).sum()) for _ in range(20)]

    assert max(differing) <= 4
    assert min(differing) >= 1


def test_a_near_copy_of_integers_stays_in_their_range():
    x = draw_one(Input("at", (50,), torch.int64, 5), seeded(), "cpu")

    assert set(nearly_copy(x, seeded()).tolist()) <= set(range(5))


def test_a_near_copy_leaves_the_original_alone():
    x = streamed(rows=32)
    kept = x.clone()
    nearly_copy(x, seeded())

    assert torch.equal(x, kept)
