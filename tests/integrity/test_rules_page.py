"""docs/integrity.md names every rule and every void reason of the code, and none that the code does not have."""

from __future__ import annotations

import re
from pathlib import Path

from cases import all_cases
from rule_names import rule_names, script_rules, void_reasons

from hotkernel_contract.compare import MAX_ERROR_RATIO
from hotkernel_contract.pool import NEAR_COPY_ONE_IN
from hotkernel_contract.protocol import CONFINEMENT

PAGE = (Path(__file__).parents[2] / "docs" / "integrity.md").read_text(encoding="utf-8")


def first_cells(title: str, level: str = "##") -> list[str]:
    """The first cells of the tables of a section."""
    section = re.split(rf"^{level} ", PAGE, flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(title + "\n"))
    return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]


def test_every_rule_is_on_the_page_and_no_other():
    named = {cell.strip("`") for cell in first_cells("Rules") if cell.startswith("`")}

    assert named == rule_names() | script_rules()


def test_no_rule_is_told_twice():
    named = [cell for cell in first_cells("Rules") if cell.startswith("`")]

    assert len(named) == len(set(named))


def test_every_void_reason_is_on_the_page_and_no_other():
    assert set(first_cells("Void batches", "###")) - {"reason"} == void_reasons()


def test_every_word_of_confinement_is_on_the_page():
    assert {cell.strip("`") for cell in first_cells("Confinement") if cell.startswith("`")} == {"own_session", *CONFINEMENT}


def test_the_numbers_on_the_page_are_the_codes():
    assert f"`max_error_ratio` is {MAX_ERROR_RATIO} unless" in PAGE
    assert f"one in {NEAR_COPY_ONE_IN}" in PAGE


def test_the_cases_that_the_page_names_exist():
    known = {case.name[:3] for case in all_cases()}

    assert set(re.findall(r"\b[xph]\d\d\b", PAGE)) <= known


def test_every_rule_that_the_code_gives_is_found():
    """A reader of code that finds nothing would hold the page to nothing."""
    assert {"wrong_values", "early_exit", "baseline_disturbed", "below_physical_floor", "pins_changed", "raised",
            "outputs_overlap", "unfinished"} <= rule_names()
    assert {"SIDE_timeout", "NAME_differs"} <= script_rules()
