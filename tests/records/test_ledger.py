"""Claims about the ledger: what is the same candidate, and that no pair is ever forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_makers import in_a_child

from hotkernel.errors import ToolError
from hotkernel.records import ledger
from hotkernel.schema.verdict import Pair, Stage

SOURCE = b'''"""A candidate."""
import torch

def candidate(x, w):
    """Scale x."""
    y = x * 0x10  # comment
    return (y *
            w)
'''


def key(
    candidate: object = SOURCE, baseline: str = "b" * 64, contract: str = "c" * 64, card: str = "cpu"
) -> ledger.Key:
    return ledger.key_of(baseline_sha256=baseline, contract_sha256=contract, card=card, candidate=candidate)  # type: ignore[arg-type]


def pairs(*ratios: float) -> tuple[Pair, ...]:
    return tuple(Pair(Stage.LOOK, number, ratio, 0.001, 8) for number, ratio in enumerate(ratios))


@pytest.mark.parametrize(
    "same",
    [
        b"import torch\ndef candidate(x, w):\n  y=x*16\n  return y*w",
        SOURCE.replace(b"# comment", b"# another try"),
        SOURCE.replace(b"Scale x.", b"Scale x, again."),
        SOURCE.replace(b"\n", b"\r\n"),
        SOURCE.replace(b"    y =", b"    pass\n    'nothing'; 5; ...\n    y ="),
        b"\xef\xbb\xbf" + SOURCE,
    ],
)
def test_a_change_that_changes_nothing_is_no_new_try(same: bytes) -> None:
    assert key(same) == key()


@pytest.mark.parametrize(
    "other",
    [
        SOURCE.replace(b"0x10", b"16.0"),
        SOURCE.replace(b"0x10", b"17"),
        SOURCE.replace(b"y * w", b"y / w").replace(b"y *\n", b"y /\n"),
        SOURCE + b"\nX = 1\n",
        SOURCE.replace(b"def candidate(x, w)", b"def candidate(w, x)"),
    ],
)
def test_a_real_change_is_a_new_try(other: bytes) -> None:
    assert key(other).candidate != key().candidate
    assert key(other).target == key().target


def test_baseline_contract_and_card_are_each_part_of_the_target() -> None:
    targets = {key().target, key(baseline="d" * 64).target, key(contract="d" * 64).target, key(card="GPU-1").target}

    assert len(targets) == 4


@pytest.mark.parametrize(
    "content",
    [
        b"__global__ void k(float* x) {}",
        b"\0",
        b"def f(:\n",
        b"x = " + b"(" * 3000 + b")" * 3000,
        b"-" * 50_000 + b"1",
        b"\xff\xfe\x00",
        b"# coding: klingon\n",
    ],
)
def test_what_is_no_python_counts_by_its_bytes(content: bytes) -> None:
    assert ledger.normalised(content) is None
    assert key(content) == key(bytes(content))
    assert key(content).candidate != key(content + b" ").candidate


def test_a_changed_file_beside_the_candidate_is_a_new_try_and_its_own_name_is_none() -> None:
    alone = key({"renamed.py": SOURCE})
    two = key({"candidate.py": SOURCE, "kernel.cu": b"one"})

    assert alone == key()
    assert two != key({"candidate.py": SOURCE, "kernel.cu": b"two"})
    assert two == key({"kernel.cu": b"one", "candidate.py": SOURCE + b"# more\n"})
    assert two != alone


def test_asking_again_goes_on_where_the_last_verify_ended(tmp_path: Path) -> None:
    assert ledger.earlier(tmp_path, key()) == ()

    ledger.append(tmp_path, key(), pairs(0.1, 0.2), "20261130-135214-a1b2c3d4")
    ledger.append(tmp_path, key(SOURCE + b"# again\n"), pairs(0.3), "20261130-135215-a1b2c3d4")

    assert ledger.earlier(tmp_path, key()) == pairs(0.1, 0.2) + pairs(0.3)


def test_tries_count_candidates_of_one_target_and_not_verifies(tmp_path: Path) -> None:
    assert ledger.tries(tmp_path, key()) == 0
    assert ledger.append(tmp_path, key(), pairs(0.1)) == 1
    assert ledger.append(tmp_path, key(), pairs(0.1)) == 1
    assert ledger.append(tmp_path, key(b"x = 1"), ()) == 2
    assert ledger.append(tmp_path, key(card="GPU-1"), ()) == 1


def test_two_verifies_that_end_at_once_lose_no_pair(tmp_path: Path) -> None:
    def verify_ten_times() -> str:
        for number in range(10):
            ledger.append(tmp_path, key(), pairs(float(number)))
        return "done"

    import threading

    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(in_a_child(verify_ten_times))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert answers == ["done"] * 3
    assert sorted(pair.log_ratio for pair in ledger.earlier(tmp_path, key())) == sorted(
        [float(n) for n in range(10)] * 3
    )


@pytest.mark.parametrize("content", ["", "{", '{"pairs": 5}', '{"pairs": [], "schema": 99}'])
def test_a_damaged_page_is_an_error_and_never_a_fresh_start(tmp_path: Path, content: str) -> None:
    ledger.append(tmp_path, key(), pairs(0.1))
    page = next((tmp_path / "ledger").rglob("*.json"))
    page.write_text(content, encoding="utf-8")

    with pytest.raises(ToolError, match="cannot be read"):
        ledger.earlier(tmp_path, key())
    with pytest.raises(ToolError, match="cannot be read"):
        ledger.append(tmp_path, key(), pairs(0.2))
