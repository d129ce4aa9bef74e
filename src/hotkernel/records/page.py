"""Fills the report's template; everything that is not a plot of ours is text there, whatever it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hotkernel.schema.page import Page, Picture

TEMPLATES = Path(__file__).parent / "templates"


def render(page: Page, pictures: Mapping[str, Sequence[Picture]]) -> str:
    """The page as one HTML document that asks the network for nothing; `pictures` by their section's key."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES, encoding="utf-8"), autoescape=True,
                                     undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    style = Markup((TEMPLATES / "report.css").read_text(encoding="utf-8"))
    drawn = {key: [(each, Markup(each.svg)) for each in some] for key, some in pictures.items()}
    return environment.get_template("report.html").render(page=page, style=style, pictures=drawn)
