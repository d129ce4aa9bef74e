"""Claims about LEADERBOARD.md: made of the logs alone, the same bytes every time, and safe whatever a note says."""

from __future__ import annotations

import dataclasses
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from record_makers import compared, in_a_child, recorded, self_reported

from hotkernel.records import figures, leaderboard, markdown, store
from hotkernel.records.store import Shelf
from hotkernel.schema.record import Logged, Record

HOSTILE = [
    "a | b",
    "a\nb\r\n| c | d |",
    "`code`",
    "<script>alert(1)</script>",
    "<!-- x",
    "[x](http://evil.example)",
    "](http://e",
    "![i](http://e/x.png)",
    "a\\",
    "a\\|b",
    "*b* _c_ ~~d~~",
    "https://evil.example/x www.evil.example a@b.example",
    "\u202egnp.exe\u2066",
    "zero\u200bwidth\ufeff",
    "\x1b[31mred\x07\0",
    "&lt;b&gt; &#124;",
    "\ud800",
    "$x$",
    "\u2028next",
]


def cells_of(text: str) -> list[list[tuple[str, list[str]]]]:
    """Every table row of a page as (text, link addresses) per cell, as a Markdown program reads it."""
    rows: list[list[tuple[str, list[str]]]] = []
    inside = False
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(text):
        inside = inside or token.type == "tbody_open"
        if token.type == "tbody_close":
            inside = False
        if inside and token.type == "tr_open":
            rows.append([])
        if inside and token.type == "inline":
            children = token.children or []
            assert {child.type for child in children} <= {"text", "link_open", "link_close", "text_special"}, (
                token.content
            )
            rows[-1].append(
                (
                    "".join(child.content for child in children),
                    [str(child.attrs["href"]) for child in children if child.type == "link_open"],
                )
            )
    return rows


def board(*records: Record) -> str:
    return leaderboard.draw(Shelf(tuple(Logged(f"results/rms/{n}.json", record) for n, record in enumerate(records))))


def test_a_row_says_everything_a_reader_asks_of_a_figure() -> None:
    record = dataclasses.replace(
        recorded(compared(speedup=1.5234, ceiling_share_pct=91.26, interval_99=(1.5101, 1.5349)), note="one pass"),
        commit="0123456789abcdef0123",
    )

    assert cells_of(board(record)) == [
        [
            ("rms", []),
            ("NVIDIA H200", []),
            ("700 W", []),
            ("0.05400 ms (7)", []),
            ("0.03545 ms (7)", []),
            ("1.523× (1.510–1.535)", []),
            ("91.3 %", []),
            ("process", []),
            ("one pass", ["results/rms/0.json"]),
            ("2026-11-30", []),
            ("0123456789a…", []),
            ("ada", []),
        ]
    ]


@pytest.mark.parametrize(
    ("verdict", "cell"),
    [
        ("faster", "1.500× (1.490–1.510)"),
        ("slower", "no gain"),
        ("inconclusive", "no gain"),
        ("incorrect", "incorrect"),
        ("invalid", "invalid"),
    ],
)
def test_the_speedup_cell_is_filled_for_faster_alone(verdict: str, cell: str) -> None:
    assert cells_of(board(recorded(compared(verdict))))[0][5][0] == cell


def test_what_is_unknown_is_a_dash_and_never_a_nought() -> None:
    bare = compared("invalid", gpu=None, gpu_uuid=None, power_limit_w=None, baseline=None, device="cpu", sources={})

    row = [text for text, _ in cells_of(board(recorded(bare, who="")))[0]]

    assert row == ["rms", "cpu", "–", "–", "–", "invalid", "–", "process", "log", "2026-11-30", "–", "–"]


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0.0023456, "0.002346 ms"),
        (0.036041, "0.03604 ms"),
        (0.5, "0.5000 ms"),
        (36.0412, "36.04 ms"),
        (1234.56, "1235 ms"),
        (123456.7, "123457 ms"),
        (1e-7, "0.000000100 ms"),
    ],
)
def test_a_time_shows_four_digits_and_no_exponent(ms: float, shown: str) -> None:
    assert figures.ms(ms) == shown


@pytest.mark.parametrize("text", HOSTILE)
def test_no_note_name_or_gpu_breaks_out_of_its_cell(text: str) -> None:
    record = dataclasses.replace(
        recorded(compared(gpu=text, assurance=text, timestamp=text), note=text, who=text), commit=text
    )
    old = store.Superseded("results/rms/superseded-x/0.json", text, text, text, None, None, None, text, text, text)
    page = leaderboard.draw(Shelf((Logged("results/rms/0.json", record),), (old,)))

    rows = cells_of(page)

    assert [len(row) for row in rows] == [12, 8]
    assert [link for row in rows for _, links in row for link in links] == [
        "results/rms/0.json",
        "results/rms/superseded-x/0.json",
    ]
    assert not any(ord(character) < 32 and character != "\n" for character in page)
    assert not set(page) & set("\u202e\u2066\u200b\ufeff\u2028\x7f")
    body = page.split("|---|", 1)[1]
    assert "<" not in body
    assert "://" not in body
    assert "www." not in body
    page.encode("utf-8")


@pytest.mark.parametrize("text", HOSTILE)
def test_an_escaped_note_still_reads_as_it_was_written(text: str) -> None:
    shown = cells_of(board(recorded(compared(), note=text)))[0][8][0]

    assert shown == markdown.plain(text, 120) or (shown == "log" and not markdown.plain(text, 120))


def test_long_text_is_cut() -> None:
    row = cells_of(board(recorded(compared(gpu="g" * 5000), note="n" * 5000, who="w" * 5000)))[0]

    assert [len(row[place][0]) for place in (1, 8, 11)] == [60, 120, 40]
    assert row[8][0].endswith("…")


def test_names_with_underscores_stay_readable_in_the_raw_file() -> None:
    assert "| my_fused_kernel |" in board(recorded(compared(target="my_fused_kernel"), target="my_fused_kernel"))


def test_a_log_whose_name_is_odd_is_linked_all_the_same() -> None:
    page = leaderboard.draw(Shelf((Logged("results/rms/x](y) |.json", recorded(compared())),)))

    assert cells_of(page)[0][8] == ("log", ["results/rms/x%5D%28y%29%20%7C.json"])


def test_a_row_measured_under_another_name_says_so() -> None:
    assert cells_of(board(recorded(compared(target="easy"), target="rms")))[0][0][0] == "rms (measured as easy)"


def test_self_reported_rows_stand_apart_whichever_of_the_two_marks_they_bear() -> None:
    page = board(
        recorded(compared(number=1), note="verified"),
        recorded(self_reported(number=2), note="by flag"),
        recorded(self_reported(number=3, self_reported=False), note="by assurance"),
    )
    verified, apart = page.split("## Self-reported")

    assert "[verified]" in verified
    assert "by flag" not in verified
    assert "by assurance" not in verified
    assert "[by flag]" in apart
    assert "[by assurance]" in apart
    assert "Nothing here is verified" in apart


def test_the_fastest_of_a_target_and_card_comes_first_then_the_others_from_old_to_new() -> None:
    page = board(
        recorded(compared("slower", 0.9, number=0), second=0, note="a"),
        recorded(compared(speedup=1.2, number=1), second=1, note="b"),
        recorded(compared(speedup=1.4, number=2), second=2, note="c"),
        recorded(compared("incorrect", number=3), second=3, note="d"),
        recorded(compared(speedup=9.0, number=4, gpu="A100"), second=4, note="e"),
    )

    assert [row[8][0] for row in cells_of(page)] == ["e", "c", "b", "a", "d"]


def test_an_empty_board_says_so_and_the_head_says_that_nobody_edits_it() -> None:
    page = board()

    assert "No record yet." in page
    assert "Nobody edits it" in page.splitlines()[2]


def fill(base: Path, order: list[int]) -> None:
    """Ten records of two targets, written in any order."""
    makers: list[Any] = [compared, self_reported]
    for number in order:
        target = "rms" if number % 2 else "softmax"
        record = recorded(makers[number % 3 == 0](speedup=1 + number / 10, number=number), second=number, target=target)
        store.write(base, record)


def test_the_board_is_the_same_byte_for_byte_however_the_logs_came_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = list(range(10))
    fill(tmp_path / "one", numbers)
    random.Random(4).shuffle(numbers)
    fill(tmp_path / "two", numbers)
    for path in (tmp_path / "two").rglob("*.json"):
        os.utime(path, (0, 0))

    first = leaderboard.rebuild(tmp_path / "one")[0].read_bytes()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = leaderboard.rebuild(tmp_path / "two")[0].read_bytes()

    assert first == second
    assert leaderboard.rebuild(tmp_path / "one")[0].read_bytes() == first


def test_an_edit_is_overwritten_and_an_unchanged_board_is_not_touched(tmp_path: Path) -> None:
    fill(tmp_path, [1, 2])
    path, _ = leaderboard.rebuild(tmp_path)
    drawn = path.read_bytes()
    path.write_bytes(drawn.replace(b"1.100", b"9.900"))
    leaderboard.rebuild(tmp_path)
    assert path.read_bytes() == drawn
    os.utime(path, (0, 0))

    leaderboard.rebuild(tmp_path)

    assert path.stat().st_mtime == 0


def test_two_writers_without_a_common_lock_both_end_up_on_the_board(tmp_path: Path) -> None:
    def writer(first: int) -> str:
        for number in range(first, first + 5):
            store.write(tmp_path, recorded(compared(number=number), second=number, note=f"note {number}"))
            leaderboard.rebuild(tmp_path)
        return "done"

    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda first=first: answers.append(in_a_child(lambda: writer(first))))
        for first in (0, 20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert answers == ["done", "done"]
    notes = {row[8][0] for row in cells_of((tmp_path / "LEADERBOARD.md").read_text(encoding="utf-8"))}
    assert notes == {f"note {number}" for number in (*range(5), *range(20, 25))}


def test_a_log_that_comes_while_the_board_is_drawn_is_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, [1])
    late, draw = [recorded(compared(number=2), second=2, note="late")], leaderboard.draw

    def draw_slowly(shelf: Shelf) -> str:
        if late:
            store.write(tmp_path, late.pop())  # another process, between our reading and our writing
        return draw(shelf)

    monkeypatch.setattr(leaderboard, "draw", draw_slowly)
    path, shelf = leaderboard.rebuild(tmp_path)

    assert "[late](" in path.read_text(encoding="utf-8")
    assert len(shelf.records) == 2
