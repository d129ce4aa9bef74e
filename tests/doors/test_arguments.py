"""A command line and a JSON call mean the same: names, defaults, bounds and complaints."""

from __future__ import annotations

import pytest
from samples import SAMPLES

from hotkernel import arguments
from hotkernel.tool import ArgumentError, Tool
from hotkernel.tools import find


@pytest.fixture
def echo() -> Tool:
    return find("echo", SAMPLES)


def parse(tool: Tool, *argv: str) -> dict[str, object]:
    return arguments.parse(tool, argv, program=f"hotkernel {tool.name}").arguments


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        (["hi"], {"target": "hi"}),
        (["--target", "hi"], {"target": "hi"}),
        (["--n", "3", "hi"], {"target": "hi", "n": 3}),
        (["hi", "--n=3", "--ratio", "0.5"], {"target": "hi", "n": 3, "ratio": 0.5}),
        (["hi", "--force"], {"target": "hi", "force": True}),
        (["hi", "--no-force"], {"target": "hi", "force": False}),
        (["hi", "--extra", "a", "b", "--extra", "c"], {"target": "hi", "extra": ["a", "b", "c"]}),
        (["hi", "--from", "m:f"], {"target": "hi", "from_": "m:f"}),
        (["hi", "--out", "x"], {"target": "hi", "out_dir": "x"}),
        (["hi", "--out_dir", "x"], {"target": "hi", "out_dir": "x"}),
        (["hi", "--verify-result", '{"id": "a"}'], {"target": "hi", "verify_result": {"id": "a"}}),
        (["hi", "--", "--flag", "-1"], {"target": "hi", "args": ["--flag", "-1"]}),
    ],
)
def test_what_is_typed_is_what_a_call_says(echo: Tool, typed: list[str], called: dict[str, object]) -> None:
    assert parse(echo, *typed) == called == echo.read(called)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"target": "a", "from": "m:f"}, {"target": "a", "from_": "m:f"}),
        ({"target": "a", "n": "5"}, {"target": "a", "n": 5}),
        ({"target": "a", "n": 5.0}, {"target": "a", "n": 5}),
        ({"target": "a", "ratio": 1}, {"target": "a", "ratio": 1}),
        ({"target": "a", "ratio": None}, {"target": "a", "ratio": None}),
        ({"target": "a", "extra": "one"}, {"target": "a", "extra": ["one"]}),
        ({"target": "a", "extra": '["one", "two"]'}, {"target": "a", "extra": ["one", "two"]}),
        ({"target": "a", "force": "true"}, {"target": "a", "force": True}),
        ({"target": "a", "args": ["-x"]}, {"target": "a", "args": ["-x"]}),
    ],
)
def test_a_value_in_another_plain_spelling_is_understood(echo: Tool, given: dict, read: dict) -> None:
    assert echo.read(given) == read


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "echo needs target"),
        ({"target": "a", "levle": "ptx"}, "did you mean 'level'"),
        ({"target": "a", "from": "x", "from_": "y"}, "given twice"),
        ({"target": 1}, "target must be a string"),
        ({"target": "a", "n": True}, "n must be an integer"),
        ({"target": "a", "n": 1.5}, "n must be an integer"),
        ({"target": "a", "n": 0}, "from 1 to 100"),
        ({"target": "a", "n": 101}, "from 1 to 100"),
        ({"target": "a", "ratio": float("nan")}, "finite"),
        ({"target": "a", "level": "sas"}, "did you mean 'sass'"),
        ({"target": "a", "dtype": "fp64"}, "none of bf16, fp16"),
        ({"target": "a", "extra": [1]}, "each of extra must be a string"),
        ({"target": "a" * 5000}, "5000 characters"),
        # 35 and 36 of the checklist: what a name may not be
        ({"target": "a\0b"}, "NUL"),
        ({"target": "file:///etc/passwd"}, "plain path"),
        ({"target": "--help"}, "begins with '-'"),
        ({"target": "a", "extra": ["-rf"]}, "begins with '-'"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(echo: Tool, given: dict, says: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        echo.read(given)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "typed", [[], ["a", "b"], ["a", "--nn", "3"], ["a", "--n"], ["a", "--n", "x"], ["--n", "3"], ["a", "--target", "b"]]
)
def test_a_command_line_that_makes_no_sense_is_refused(echo: Tool, typed: list[str]) -> None:
    with pytest.raises(ArgumentError):
        parse(echo, *typed)


def test_dashes_end_the_options_only_where_something_can_follow() -> None:
    with pytest.raises(ArgumentError, match="nothing can follow"):
        parse(find("nothing", SAMPLES), "--", "x")


def test_where_nothing_is_required_the_first_argument_may_be_typed_alone() -> None:
    assert parse(find("greet", SAMPLES), "you") == {"name": "you"}
    with pytest.raises(ArgumentError, match="too many"):
        parse(find("greet", SAMPLES), "you", "me")
