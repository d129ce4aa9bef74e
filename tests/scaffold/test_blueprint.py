"""Claims about what a target may be called, and how inputs and functions are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotkernel.errors import ToolError
from hotkernel.scaffold.blueprint import Blueprint, FunctionPlace, near_path, read_inputs, read_names

GELU = FunctionPlace("torch.nn.functional", None, "gelu")


def place(text: str, folder: Path = Path("/nowhere")) -> FunctionPlace:
    return FunctionPlace.read(text, lambda path: folder / path, "from")


def blueprint(target: str = "gelu", **given: object) -> Blueprint:
    known: dict[str, object] = {"function": GELU, "inputs": {"x": "4x4"}, "dtype": "bf16", "rotate": ()}
    return Blueprint(target=target, **{**known, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "rms norm", "rms/norm", "../rms", "rms-norm", "1st", "class", "größe", "a" * 65, "a\nb",
                                  "a;b"])
def test_a_name_that_cannot_name_files_and_a_function_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="cannot name files and a function"):
        blueprint(name)


@pytest.mark.parametrize("names", [{"inputs": {"x": "4", "my w": "4"}}, {"rotate": ("x)",)}, {"inputs": {"lambda": "4"}}])
def test_an_input_whose_name_is_no_name_is_refused(names: dict[str, object]) -> None:
    with pytest.raises(ToolError, match="no name for an input"):
        blueprint(**names)


def test_inputs_are_x_and_then_the_extra_ones_in_order() -> None:
    read = read_inputs("4096 x 8192", ["w:8192", "idx:4096:int64<32000"])

    assert list(read.items()) == [("x", "4096x8192"), ("w", "8192"), ("idx", "4096:int64<32000")]


@pytest.mark.parametrize("text", ["w:8192:fp32, b:4,4 idx:4:int64<9", "w:8192:fp32;b:4,4;idx:4:int64<9"])
def test_several_extra_inputs_may_come_in_one_text(text: str) -> None:
    assert read_inputs("4", [text]) == {"x": "4", "w": "8192:fp32", "b": "4,4", "idx": "4:int64<9"}


@pytest.mark.parametrize(("extra", "said"), [("w", "is no input"), ("w:", "is no input"), ("x:4", "two inputs called 'x'")])
def test_an_extra_input_that_is_none_says_how_to_write_it(extra: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        read_inputs("4", [extra])


def test_names_come_as_a_list_or_as_one_text() -> None:
    assert read_names(["x", "w"]) == read_names(["x, w"]) == read_names(["x w"]) == ("x", "w")


@pytest.mark.parametrize("text", ["gelu", "torch.gelu", "torch:", ":gelu", "torch nn:gelu", "torch:ge lu", "a/b:gelu",
                                  "torch:gelu()"])
def test_a_text_that_names_no_function_says_how_to_name_one(text: str) -> None:
    with pytest.raises(ToolError) as caught:
        place(text)

    assert "torch.nn.functional:gelu" in caught.value.fix


def test_a_function_may_lie_in_a_module_a_file_or_a_class(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("", encoding="utf-8")

    assert place("torch.nn.functional:gelu") == GELU
    assert place("./mine.py:fused", tmp_path) == FunctionPlace("", tmp_path / "mine.py", "fused")
    assert not place("torch:ops.aten.mv").is_plain_import


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"no such file: .*gone\.py"):
        place("gone.py:fused", tmp_path)


@pytest.mark.parametrize(("file", "folder", "path"), [
    ("/home/a/repo/k.py", "/home/a/repo", "./k.py"),
    ("/home/a/repo/src/k.py", "/home/a/repo", "./src/k.py"),
    ("/home/a/repo/src/k.py", "/home/a/repo/targets/k", "../../src/k.py"),
    ("/home/a/k.py", "/home/a/b/c/d/e", "/home/a/k.py"),
    ("/data/k.py", "/home", "/data/k.py"),
])
def test_a_near_file_is_named_by_a_relative_path_and_a_far_one_by_its_whole(file: str, folder: str, path: str) -> None:
    assert near_path(Path(file), Path(folder)) == path


def test_derive_goes_with_the_names_it_returns_and_a_reference() -> None:
    with pytest.raises(ToolError, match="derive needs inputs"):
        blueprint(derive=GELU, reference=GELU)
    with pytest.raises(ToolError, match="derive needs inputs"):
        blueprint(derive=GELU, takes=("q",))
    with pytest.raises(ToolError, match="inputs without derive"):
        blueprint(takes=("q",))
    assert blueprint(derive=GELU, takes=("q", "s"), reference=GELU).arguments == ("q", "s")
