"""Claims that a real browser holds the report to: no request, no error, no overflow, all by keyboard, in light and dark.

Needs playwright (PyPI) and a Chromium on PATH; skipped where either is missing.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from pages import hostile_records, own_records, page_of

pytest.importorskip("matplotlib", reason="matplotlib is the extra `plot`")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is on PATH")
WIDTHS = (390, 800, 1400)
LEAST_CONTRAST = 4.5  # WCAG AA
CONTRAST = """() => {
  const rgb = c => c.match(/[\\d.]+/g).map(Number);
  const lum = c => { const [r, g, b] = rgb(c).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                     return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const paper = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
                       if ((rgb(c)[3] ?? 1) > 0) return c; } return 'rgb(255,255,255)'; };
  return Math.min(...[...document.querySelectorAll('p,dt,dd,th,td,b,summary,code,a,figcaption,h1,h2,h3')].map(e => {
    const [a, b] = [lum(getComputedStyle(e).color), lum(paper(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of the report of this repository's records, and of the hostile ones."""
    folders = {"own": own_records(tmp_path_factory.mktemp("own")), "hostile": hostile_records(tmp_path_factory.mktemp("hostile"))}
    return {name: Path(page_of(folder)[1].path).as_uri() for name, folder in folders.items()}


class Visit:
    """One page, opened; everything that it says or asks for is kept."""

    def __init__(self, browser: Any, address: str, width: int = 800, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def open_all(self) -> int:
        """Click on every summary that is closed; how many there were."""
        closed = self.page.locator("details:not([open]) > summary")
        count = closed.count()
        for _ in range(count):
            closed.first.click()
        return count


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["own", "hostile"])
def test_clicked_through_it_asks_for_nothing_says_nothing_and_never_scrolls_sideways(browser, pages, name, scheme, width):
    visit = Visit(browser, pages[name], width, scheme)
    title = visit.page.title()

    assert visit.open_all() >= 4
    for link in visit.page.locator("a[href^='#']").all()[1:]:  # the first is the skip link, unseen until it has the focus
        link.click()
    assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert visit.asked == [pages[name]]
    assert visit.said == []
    assert visit.page.title() == title
    visit.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_stands_out_from_its_paper(browser, pages, scheme):
    visit = Visit(browser, pages["own"], scheme=scheme)
    visit.open_all()
    paper = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert visit.page.evaluate(CONTRAST) >= LEAST_CONTRAST
    visit.context.close()


def test_the_keyboard_reaches_everything_and_sees_where_it_is(browser, pages):
    visit = Visit(browser, pages["own"])
    reached = []
    for _ in range(60):
        visit.page.keyboard.press("Tab")
        focused = visit.page.evaluate("""() => { const e = document.activeElement, s = getComputedStyle(e);
            return [e.tagName, e.className, s.outlineStyle, parseFloat(s.outlineWidth)]; }""")
        if focused[0] == "BODY":
            break
        reached.append(focused)
    assert reached[0][:2] == ["A", "skip"]
    assert {tag for tag, *_ in reached} == {"A", "SUMMARY", "DIV"}
    assert all(style == "solid" and width >= 2 for _, _, style, width in reached)
    summary = visit.page.locator("ol.attempts summary").first
    summary.focus()
    visit.page.keyboard.press("Enter")
    assert visit.page.locator("ol.attempts details").first.get_attribute("open") is not None
    visit.context.close()


def test_a_hostile_note_is_read_as_it_was_written(browser, pages):
    visit = Visit(browser, pages["hostile"])

    assert "<script>document.title='taken'</script>" in visit.page.locator("ol.attempts").inner_text()
    assert visit.page.locator("script, img").count() == 0
    visit.context.close()
