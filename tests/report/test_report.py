"""Claims about the report's page: whole in itself, true to the logs, and text where a log holds text, whatever that says."""

from __future__ import annotations

import itertools
import re
import sys
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from pages import LONG, SCRIPT, hostile_records, own_records, page_of, session

from hotkernel.errors import ToolError
from hotkernel.tools.report import report

pytest.importorskip("matplotlib", reason="matplotlib is the extra `plot`")
VOID = {"meta", "link"}


class Elements(HTMLParser):
    """Every element of a page with its attributes, and whether each that was opened is closed in turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.said = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        self.said += data


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(own_records(tmp_path_factory.mktemp("own")))[0]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(hostile_records(tmp_path_factory.mktemp("hostile")))[0]


@pytest.mark.parametrize("name", ["own", "hostile"])
def test_the_page_is_well_formed_and_every_id_is_one_of_a_kind(name, request):
    elements = Elements(request.getfixturevalue(name))
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]

    assert elements.wrong == []
    assert elements.open == []
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["own", "hostile"])
def test_the_page_asks_for_nothing_and_runs_nothing(name, request):
    elements = Elements(request.getfixturevalue(name))
    policy = next(a["content"] for tag, a in elements.found if tag == "meta" and a.get("http-equiv"))

    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    for tag, attributes in elements.found:
        assert tag not in ("script", "iframe", "object", "embed", "img", "base", "form")
        assert not [key for key in attributes if key.startswith("on")]
        for key in ("href", "src", "xlink:href"):
            assert (attributes.get(key) or "#").startswith(("#", "data:,")), attributes


def test_what_a_log_says_of_html_stands_there_as_text(hostile):
    said = Elements(hostile).said

    assert SCRIPT in said
    assert "</summary></details>{{ 7 * 7 }}" in said


def test_nothing_unseen_is_on_the_page_and_in_a_source_it_is_named(hostile):
    unseen = {sign for sign in hostile if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Co") and sign != "\n"}

    assert unseen == set()
    assert "⟨U+202E⟩gpj.exe⟨U+200B⟩" in hostile


def test_a_name_of_ten_thousand_letters_is_cut_where_it_is_a_name(hostile):
    assert LONG not in hostile
    assert max(map(len, re.findall(r"k{50,}", hostile))) <= 2000  # of a source's line more is shown than of a name


def test_every_record_stands_on_the_page_with_its_verdict_and_its_note(own):
    said = Elements(own).said

    for note in ("one Triton program a row, in registers: every byte read once and written once",
                 "untouched: the baseline itself", "the mean over every fourth column (a deliberately wrong one)"):
        assert note in said
    assert len(re.findall(r'<li>\s*<details', own)) == 9
    assert "5 attempts: 2 faster, 2 inconclusive, 1 incorrect." in said
    assert "12.4 times as fast (between 12.2 and 12.7 times, with 99 % confidence): one call takes 37.30\u00a0µs" in said
    assert "3.7\u00a0% faster (between 2.4 and 5.0\u00a0%, with 99 % confidence)" in said


def test_the_best_ones_source_stands_beside_the_baselines(own):
    removed = re.findall(r'<tr class="removed">.*?<code>(.*?)</code>', own)
    added = re.findall(r'<tr class="added">.*?<code>(.*?)</code>', own)

    assert "    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)" in removed
    assert any(line.startswith("def rmsnorm_kernel(") for line in added)
    assert "The baseline is a library&#39;s function (from torch import mv as baseline)" in own


def test_headings_go_down_by_one_and_every_table_says_what_its_cells_are(own):
    elements = Elements(own)
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch(r"h\d", tag)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))
    assert all(attributes.get("scope") in ("row", "col") for tag, attributes in elements.found if tag == "th")
    scrolling = [attributes for _, attributes in elements.found if "scroll" in (attributes.get("class") or "")]
    assert all(each.get("tabindex") == "0" and each.get("aria-labelledby") for each in scrolling)


def test_every_plot_is_told_in_words_and_is_well_formed(own):
    plots = [attributes for _, attributes in Elements(own).found if attributes.get("role") == "img"]
    svgs = re.findall(r"<svg .*?</svg>", own, re.DOTALL)

    assert len(plots) == len(svgs) == 6
    assert all(len(each["aria-label"] or "") > 80 for each in plots)
    for svg in svgs:
        ElementTree.fromstring(svg)


def test_a_profiles_difference_says_why(hostile):
    assert "because &lt;script&gt;" in hostile
    assert "What the profiler counted" in hostile


def test_one_record_has_a_page_of_its_own_by_its_id_its_log_or_its_path(tmp_path):
    folder = own_records(tmp_path)
    log = "results/rmsnorm/20261130-154820.json"
    pages = [page_of(folder, name)[0] for name in ("20261130-154810-41kajhwy", log, str(folder / log))]

    assert "<h1>rmsnorm: one attempt</h1>" in pages[0]
    assert "#2" in pages[0]
    assert len({re.sub(r"on 2\d{3}-\S+ \S+ UTC", "", page) for page in pages}) == 1


def test_one_target_is_asked_for_by_its_name(tmp_path):
    text, result = page_of(own_records(tmp_path), "gemv")

    assert (result.targets, result.attempts) == (("gemv",), 2)
    assert "rmsnorm" not in text


def test_the_plots_come_as_png_too(tmp_path):
    result = page_of(own_records(tmp_path), "gemv", png=True, out="sub/page.html")[1]

    assert [Path(each).name for each in result.pictures] == ["page-gemv-t1-attempts.png", "page-gemv-t1-roofline.png"]
    assert all(Path(each).read_bytes().startswith(b"\x89PNG") for each in result.pictures)


def test_without_matplotlib_the_page_says_what_is_missing_and_has_all_the_rest(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # what an installation without the extra looks like
    text, result = page_of(own_records(tmp_path))

    assert "pip install &#39;hotkernel[plot]&#39;" in text
    assert result.warnings
    assert "<svg" not in text
    assert "12.4 times as fast" in text


def test_a_file_that_is_no_page_is_not_written_over(tmp_path):
    source = own_records(tmp_path) / "kernel.py"
    source.write_text("mine", encoding="utf-8")
    with pytest.raises(ToolError, match="no name for a page"):
        report(session(tmp_path), out="kernel.py")

    assert source.read_text(encoding="utf-8") == "mine"


def test_no_records_and_an_unknown_one_are_said(tmp_path):
    with pytest.raises(ToolError, match="nothing is recorded"):
        report(session(tmp_path))
    with pytest.raises(ToolError, match="no record is called"):
        report(session(own_records(tmp_path)), "gelu")
