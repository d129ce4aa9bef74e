"""What a real call was given, in a target's own words; and a module made anew without its constructor."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hotkernel_contract.inputs import draw_one
from hotkernel_contract.module_tree import lines_of, shape_of
from hotkernel_contract.observed_call import Parameters, Unfit, layout_of, observe, spelled
from hotkernel_contract.spec import Input, TargetError

X = torch.randn(2, 3, 4)


def observed(*args: Any, **kwargs: Any) -> Any:
    return observe(args, kwargs, Parameters(("input", "weight", "bias", "eps")))


def test_a_call_is_told_by_names_in_its_own_order() -> None:
    call = observed(X, torch.ones(4), None, eps=1e-6)

    assert call.text == "x, weight, None, eps=eps"
    assert list(call.tensors) == ["x", "weight"]
    assert call.constants == {"eps": 1e-6}


def test_tensors_in_a_list_get_names_of_their_own() -> None:
    call = observe([[X, X], 1], {}, Parameters(("tensors", "dim")))

    assert call.text == "[x, tensors1], dim"
    assert list(call.tensors) == ["x", "tensors1"]


def test_calls_of_other_shapes_dtypes_layouts_and_constants_have_other_keys() -> None:
    calls = [observed(X), observed(X[:1]), observed(X.double()), observed(X.transpose(1, 2)), observed(X, eps=1.0),
             observed(X, eps=2.0)]

    assert len({call.key for call in calls}) == len(calls)
    assert observed(torch.zeros(2, 3, 4)).key == calls[0].key


@pytest.mark.parametrize("given", [(), (1, "text"), (X, object()), (X.to_sparse(),), (torch.empty(0, 4),)])
def test_what_no_target_can_be_given_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(Unfit):
        observed(*given)


def test_a_built_in_has_the_names_of_its_operator() -> None:
    assert Parameters.of(torch.softmax).names[:2] == ("self", "dim")
    assert Parameters.of(torch.nn.functional.rms_norm).names[:2] == ("input", "normalized_shape")


def test_a_call_is_the_same_however_it_is_spelled() -> None:
    weight, known = torch.ones(4), Parameters.of(torch.nn.functional.layer_norm)
    spellings = [([X, (4,), weight], {}), ([X, (4,)], {"weight": weight, "bias": None, "eps": 1e-5}),
                 ([], {"weight": weight, "normalized_shape": (4,), "input": X})]

    assert {observe(args, kwargs, known).text for args, kwargs in spellings} == {"x, normalized_shape, weight"}
    assert observe([X, (4,)], {"eps": 1e-3}, known).text == "x, normalized_shape, eps=eps"


def test_what_a_built_in_was_given_by_keyword_stays_so() -> None:
    assert observe([X, X], {"alpha": 2}, Parameters.of(torch.add)).text == "x, other, alpha=alpha"


@pytest.mark.parametrize("x", [X, X.transpose(-1, -2), X.transpose(0, 1), torch.randn(3, 2, 4, 5).permute(1, 2, 0, 3)])
def test_an_input_that_is_spelled_is_drawn_with_the_same_strides(x: torch.Tensor) -> None:
    drawn = draw_one(Input.parse("x", spelled(x), torch.float32), torch.Generator(), "cpu")

    assert (drawn.shape, drawn.dtype, drawn.stride()) == (x.shape, x.dtype, x.stride())


def test_a_layout_that_no_word_says_is_told_as_such() -> None:
    assert layout_of(torch.randn(4, 8)[:, ::2]) == "?"
    assert layout_of(torch.randn(4, 8)[:, :4]) == "sliced"
    assert layout_of(X.transpose(0, 1)) == "order=102"


@pytest.mark.parametrize("spec", ["2x3x4:order=01", "2x3x4:order=011", "2x3x4:order=abc"])
def test_an_order_names_each_dimension_once(spec: str) -> None:
    with pytest.raises(TargetError, match="once"):
        Input.parse("x", spec, torch.float32)


def test_integers_and_masks_are_spelled_with_their_range() -> None:
    assert spelled(torch.tensor([3, 9, 0])) == "3:int64<10"
    assert spelled(torch.tensor([True, False, False, False])) == "4:bool:share=0.25"
    with pytest.raises(Unfit):
        spelled(torch.tensor([-1]))


# Modules --------------------------------------------------------------------------------------------------------------


class Gated(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.scale, self.act, self.line = 0.5, torch.nn.functional.silu, torch.nn.Linear(size, size)
        self.register_buffer("table", torch.arange(size).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.line(x)) * self.scale + self.table


SCRIPT: Any = SimpleNamespace(path=Path(__file__), is_of_script=lambda name: name == __name__)


def remade(module: torch.nn.Module) -> Any:
    """The module that the lines make, with functions that a captured file has."""
    from hotkernel_contract.loading import load_function

    def bare(place: str) -> Any:
        kind = globals()[place.rpartition(":")[2]] if place.startswith(__file__) else load_function(place)
        made = kind.__new__(kind)
        torch.nn.Module.__init__(made)
        return made

    kept: dict[str, torch.Tensor] = {}
    lines = lines_of(module, SCRIPT, kept)
    names: dict[str, Any] = {"bare": bare, "found": load_function, "kept": kept, "torch": torch,
                             "drawn": lambda shape, dtype, *_: torch.nn.Parameter(torch.zeros(shape, dtype=dtype))}
    exec("\n".join(lines), names)
    return names["module"]


def test_a_module_is_made_anew_without_its_constructor() -> None:
    module = Gated(8)
    again = remade(module)
    again.load_state_dict(module.state_dict())
    x = torch.randn(3, 8)

    assert torch.equal(again(x), module(x))


def test_modules_that_differ_in_their_numbers_alone_are_one_kind() -> None:
    assert shape_of(Gated(8), SCRIPT) == shape_of(Gated(8), SCRIPT)
    assert shape_of(Gated(8), SCRIPT) != shape_of(Gated(16), SCRIPT)


def test_what_cannot_be_made_anew_is_refused_with_its_name() -> None:
    module = Gated(8)
    module.cache = {"key": X}  # type: ignore[assignment]
    with pytest.raises(Unfit, match="its attribute cache is a dict"):
        shape_of(module, SCRIPT)
    module = Gated(8)
    module.act = lambda x: x  # type: ignore[assignment]
    with pytest.raises(Unfit, match="inside a function"):
        shape_of(module, SCRIPT)
