"""What READMEs and pages say of records, versions, owners and each other is so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
import write_readme
import write_stamps

from hotkernel.records import store

ROOT = Path(__file__).parents[2]
READMES = ("README.md", "README_zh.md")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*/*.md")])
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def prose_of(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", READMES)
def test_the_table_is_what_the_records_give(name: str) -> None:
    assert text_of(name) == write_readme.readme(name), "run make docs"


def test_the_table_has_a_row_for_each_target_won_or_lost() -> None:
    shown = {(each.record.target, each.record.comparison.gpu): each for each in write_readme.best()}
    timed = write_readme.first_verdicts()
    won = {(each.record.target, each.record.comparison.gpu) for each in timed if each.record.comparison.verdict == "faster"}

    assert len(won) >= 3
    assert set(shown) == {(each.record.target, each.record.comparison.gpu) for each in timed}
    assert {place for place, each in shown.items() if each.record.comparison.verdict == "faster"} == won


def test_a_target_that_nobody_beat_says_so_in_its_row() -> None:
    table = write_readme.headline(write_readme.COLUMNS["README.md"])
    lost = [line for each, line in zip(write_readme.best(), table.splitlines()[2:], strict=True)
            if each.record.comparison.verdict != "faster"]

    assert all("slower: " in line or "inconclusive: " in line for line in lost)
    assert not any("**" in line for line in lost)


def test_a_candidate_that_was_judged_again_stands_with_its_first_verdict() -> None:
    places = [(each.record.target, each.record.comparison.gpu, each.record.comparison.sources["candidate"].sha256)
              for each in store.read(ROOT).records if each.record.comparison.speedup and each.record.is_verified]
    again = {place for place in places if places.count(place) > 1}
    stamps = {(each.record.target, each.record.comparison.gpu, each.record.comparison.sources["candidate"].sha256):
              each.record.timestamp for each in write_readme.first_verdicts()}

    assert again
    for target, gpu, source in again:
        assert stamps[target, gpu, source] == min(
            each.record.timestamp for each in store.read(ROOT).records
            if (each.record.target, each.record.comparison.gpu, each.record.comparison.sources["candidate"].sha256)
            == (target, gpu, source))


def test_the_picture_is_what_the_records_give_and_is_a_picture() -> None:
    drawn = write_readme.PICTURE.read_text(encoding="utf-8")
    words = " ".join(ElementTree.fromstring(drawn).itertext())

    assert drawn == write_readme.picture(), "run make docs"
    assert re.findall(r"verdict:\s+(\w+)", words) == ["inconclusive", "faster", "incorrect", "inconclusive"]


def test_both_readmes_have_the_same_structure() -> None:
    def shape(name: str) -> list[str]:
        text = re.sub(r"<!-- headline.*?/headline -->", "", text_of(name), flags=re.DOTALL)
        return [re.match(r"#+|```\w*|\||- |!\[|<!--", line)[0]  # type: ignore[index]
                for line in text.splitlines() if re.match(r"#+ |```|\||- |!\[|<!--", line)]

    assert shape("README.md") == shape("README_zh.md")
    assert FENCE.findall(text_of("README.md")) == FENCE.findall(text_of("README_zh.md"))
    links = [re.findall(r"\]\(([^)]+)\)", text_of(name)) for name in READMES]
    assert sorted(set(links[0]) - {"README_zh.md"}) == sorted(set(links[1]) - {"README.md"})


def test_a_readme_can_be_read_at_one_sitting() -> None:
    assert len(text_of("README.md").splitlines()) <= 180


@pytest.mark.parametrize("name", write_stamps.STAMPED)
def test_a_file_says_todays_version_and_owner(name: str) -> None:
    assert text_of(name) == write_stamps.stamped(name), "run make docs"


def test_the_owner_is_said_nowhere_that_is_not_stamped() -> None:
    done = subprocess.run(["git", "grep", "-lwI", "OWNER"], cwd=ROOT, capture_output=True, text=True, check=False)
    # its one place; a page that is written whole; the workflow that releases nothing while it stands there
    elsewhere = {"pyproject.toml", "docs/clients.md", ".github/workflows/release.yml"}
    tests = {name for name in done.stdout.split() if name.startswith("tests/")}

    assert set(done.stdout.split()) - tests - elsewhere <= set(write_stamps.STAMPED)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_somewhere(page: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors_of(found)):
            wrong.append(target)

    assert wrong == []


def test_every_page_is_in_the_index() -> None:
    index = text_of("docs/README.md")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}

    assert {name for name in pages if f"({name})" not in index} == set()
