"""Finds a card in the table of data-sheet figures (gpu_specs.toml, each with its document); works nothing out."""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import re
import tomllib
from typing import Any

from hotkernel.schema.roofline import DTYPES, Figure, GpuSpec

MAKERS_WORDS = re.compile(r"^(nvidia|tesla|geforce)+")


@functools.cache
def table() -> dict[str, GpuSpec]:
    """Every card of the table by its key, in the table's order."""
    raw = _raw()
    return {key: _spec(key, card, raw["documents"]) for key, card in raw["cards"].items()}


def of_driver_name(name: str | None, board: str | None = None) -> GpuSpec | None:
    """The card that the driver calls exactly so; None for any other, a laptop's, a slice or a cut name among them.

    `board` is the computer's own name: a Jetson's driver does not say which Jetson it is.
    """
    for key, card in _raw()["cards"].items():
        named = {_plain(known) for known in card["driver_names"]}
        if (name and _plain(name) in named) or (board and board in card.get("boards", ())):
            return table()[key]
    return None


def of_words(words: str) -> GpuSpec | None:
    """The card that somebody means by `rtx5090`, `RTX 5090` or the driver's name; None when that is not clear."""
    wanted = _short(words)
    for key, card in _raw()["cards"].items():
        known = (key, card["name"], *card["driver_names"], *card.get("aliases", ()), *card.get("boards", ()))
        if wanted and wanted in map(_short, known):
            return table()[key]
    return None


def near(words: str) -> list[str]:
    """Keys that `words` may have meant: those that begin with it, else those that look alike."""
    wanted = _short(words)
    begin = [key for key in table() if wanted and key.startswith(wanted)]
    return begin or difflib.get_close_matches(wanted, list(table()), n=4, cutoff=0.6)


def as_markdown() -> str:
    """docs/gpu-specs.md: the table for a reader, each number with the mark of its document."""
    documents = _raw()["documents"]
    marks = {key: f"[{place}]" for place, key in enumerate(documents, start=1)}
    lines = [
        "# Cards",
        "",
        "Made from `src/hotkernel/judge/gpu_specs.toml` by `hotkernel.judge.gpu_specs.as_markdown`; edit the former.",
        "Rates are TFLOP/s (int8: TOPS), dense, with fp32 accumulation; bandwidth is GB/s.",
        "The mark after a number is its source, listed below.",
        "A gap is a number that could not be sourced.",
        "",
        "| key | card | cc | " + " | ".join(DTYPES) + " | GB/s | GB | L2 MiB | W |",
        "|" + "---|" * (len(DTYPES) + 7),
    ]
    for key, card in _raw()["cards"].items():
        rates = [_cell(card["tflops"].get(dtype), marks) for dtype in DTYPES]
        rest = [_cell(card.get(name), marks) for name in ("bandwidth_gbps", "memory_gb")]
        rest += [_cell(card.get("l2_bytes"), marks, 1024 * 1024), _cell(card.get("power_w"), marks)]
        lines.append(f"| `{key}` | {card['name']} | {card['compute_capability']} | " + " | ".join(rates + rest) + " |")
    lines += ["", "## Sources", ""]
    for key, document in documents.items():
        seen = f"; read in: {document['seen']}" if "seen" in document else ""
        lines.append(f"{marks[key][1:-1]}. [{document['title']}]({document['url']}), read {document['read']}{seen}")
    return "\n".join(lines) + "\n"


@functools.cache
def _raw() -> dict[str, Any]:
    text = importlib.resources.files("hotkernel.judge").joinpath("gpu_specs.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _spec(key: str, card: dict[str, Any], documents: dict[str, Any]) -> GpuSpec:
    def figure(name: str) -> Figure | None:
        return _figure(card[name], card, documents) if name in card else None

    return GpuSpec(
        key=key,
        name=card["name"],
        compute_capability=card["compute_capability"],
        tflops={dtype: _figure(raw, card, documents) for dtype, raw in card["tflops"].items()},
        bandwidth_gbps=figure("bandwidth_gbps"),
        memory_gb=figure("memory_gb"),
        l2_bytes=figure("l2_bytes"),
        shared_per_block_bytes=figure("shared_per_block_bytes"),
        power_w=figure("power_w"),
        sm_count=figure("sm_count"),
        boost_mhz=figure("boost_mhz"),
        shares_host_memory=card.get("shares_host_memory", False),
        notes=tuple(card.get("notes", ())),
    )


def _figure(raw: list[Any], card: dict[str, Any], documents: dict[str, Any]) -> Figure:
    """A figure of the file with its source spelled out: title, address, the day it was read."""
    value, key, *note = raw
    document = documents[key]
    address = document["url"] + (card["techpowerup"] if key == "techpowerup" else "")
    return Figure(float(value), f"{document['title']}, {address}, read {document['read']}", *note)


def _cell(raw: list[Any] | None, marks: dict[str, str], divisor: int = 1) -> str:
    return f"{raw[0] / divisor:g} {marks[raw[1]]}" if raw else ""


def _plain(name: str) -> str:
    """A driver's name without its maker (older drivers leave it out) and with single spaces."""
    return re.sub(r"^nvidia ", "", " ".join(name.lower().split()))


def _short(words: str) -> str:
    """`NVIDIA GeForce RTX 5090` as rtx5090."""
    return MAKERS_WORDS.sub("", re.sub(r"[^a-z0-9]", "", words.lower()))
