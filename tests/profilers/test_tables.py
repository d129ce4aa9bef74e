"""Numbers and tables as different locales and terminals write them."""

import pytest

from hotkernel.errors import ToolError
from hotkernel.profilers import tables
from hotkernel.profilers.tables import NumberStyle, number_style


def test_a_spanish_file_is_read_by_its_telling_numbers():
    style = number_style(["117.344", "65,77", "1.234.567,8"])

    assert style.read("117.344") == 117344
    assert style.read("65,77") == 65.77


def test_an_english_file_is_read_by_its_telling_numbers():
    style = number_style(["21,058,944", "61.84"])

    assert style.read("21,058,944") == 21058944
    assert style.read("85,824") == 85824


@pytest.mark.parametrize("text", ["85,824", "85.824"])
def test_a_mark_before_three_digits_parts_thousands_where_no_number_tells(text):
    assert number_style([text]).read(text) == 85824


def test_a_file_that_contradicts_itself_is_refused_rather_than_wrong_by_a_thousand():
    with pytest.raises(ToolError, match="both with a point and with a comma"):
        number_style(["3.25", "3,25"])


def test_spaces_and_apostrophes_part_thousands_too():
    style = NumberStyle(",")

    assert style.read("1\u202f234\u00a0567,5") == 1234567.5
    assert NumberStyle(".").read("1'234.5") == 1234.5


@pytest.mark.parametrize(
    "text", ["n/a", "no data", "", "nan", "inf", "-", "PolicySpread", "(!) n/a", "1.2.3.4", "0x10"]
)
def test_what_is_no_number_is_unknown_and_not_zero(text):
    assert NumberStyle(".").read(text) in (None, 1234.0 if text == "1.2.3.4" else None)
    assert NumberStyle(".").read("n/a") is None


@pytest.mark.parametrize(
    ("value", "unit", "base"),
    [
        (28.1, "us", (2.81e-05, "s")),
        (3, "msecond", (0.003, "s")),
        (98.30, "Kbyte/block", (98300.0, "byte/block")),
        (3.45, "Tbyte/s", (3.45e12, "byte/s")),
        (1.97, "Ghz", (1.97e9, "hz")),
        (1.5, "cycle/nsecond", (1.5e9, "hz")),
        (71.76, "%", (71.76, "%")),
        (64, "register/thread", (64, "register/thread")),
        (7, "", (7, "")),
    ],
)
def test_units_come_down_to_their_base(value, unit, base):
    found, name = tables.to_base(value, unit)

    assert (pytest.approx(found), name) == base


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_header_is_found_below_free_text_whatever_parts_its_columns(delimiter):
    lines = [
        "\ufeff==PROF== Connected, to process 1",
        "a, b; c\td",
        delimiter.join(["ID", '"Kernel Name"', "x"]),
        delimiter.join(["0", '"f(int, char)"', "1"]),
    ]

    found = tables.find("\r\n".join(lines), [frozenset({"id", "kernel name"})])

    assert list(found.records()) == [{"ID": "0", "Kernel Name": "f(int, char)", "x": "1"}]


def test_a_row_that_lacks_fields_lacks_keys():
    found = tables.find("A,B,C\n1,2\n", [frozenset({"a", "b"})])

    assert list(found.records()) == [{"A": "1", "B": "2"}]
