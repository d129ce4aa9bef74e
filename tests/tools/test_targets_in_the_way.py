"""Claims about new_target and files: what stands there stays, what is refused leaves nothing, force says what it replaced."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from target_makers import MINE, in_a_child, make, refused, session

from hotkernel.records import pins
from hotkernel.records.state import state_dir
from hotkernel.session import Session

__all__ = ["session"]  # a fixture


def test_files_that_are_there_are_named_and_stay(session: Session) -> None:
    for name in ("scaled_baseline.py", "scaled_candidate.py"):
        (session.root / name).write_text("mine", encoding="utf-8")

    assert "scaled_baseline.py and scaled_candidate.py already" in refused(session).message


def test_force_replaces_them_and_pins_anew(session: Session) -> None:
    first = make(session)
    Path(first.files["candidate"]).write_text("edited", encoding="utf-8")
    before = pins.load(state_dir(session.environment), Path(first.files["baseline"]))

    second = make(session, dtype="fp64", force=True)

    assert 'dtype="fp64"' in Path(second.files["baseline"]).read_text(encoding="utf-8")
    assert "scaled_candidate" in Path(second.files["candidate"]).read_text(encoding="utf-8")
    assert pins.load(state_dir(session.environment), Path(first.files["baseline"])) != before


def test_a_second_target_shares_the_contract_of_a_folder(session: Session) -> None:
    make(session)
    contract = session.root / "hotkernel_contract.py"
    before = contract.stat().st_mtime_ns

    make(session, "one", "mine.py:one", extra=None)

    assert contract.stat().st_mtime_ns == before


@pytest.mark.parametrize(("text", "said"), [
    ("# version 0.0.1, SHA-256 of all that follows this line: " + "0" * 64 + "\nimport torch\n", "a contract that was edited"),
    ("# version 0.0.1, SHA-256 of all that follows this line: "
     "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n", "the contract of hotkernel 0.0.1"),
    ("import torch\n", "no contract that hotkernel made"),
])
def test_another_contract_is_replaced_by_force_alone_and_that_is_said(session: Session, text: str, said: str) -> None:
    (session.root / "hotkernel_contract.py").write_text(text, encoding="utf-8")

    assert said in refused(session).message
    assert said in make(session, force=True).warnings[0]


def test_the_users_own_file_is_never_written_over(session: Session) -> None:
    (session.root / "scaled_candidate.py").write_text(MINE, encoding="utf-8")

    assert "would be written over" in refused(session, "scaled", "scaled_candidate.py:scaled", force=True).message


@pytest.mark.parametrize("name", ["mine.py", "mine.py/deeper"])
def test_an_out_dir_that_is_a_file_is_refused(session: Session, name: str) -> None:
    assert "mine.py" in refused(session, out_dir=name).message


def test_a_cwd_that_is_not_there_is_refused_and_not_made(session: Session) -> None:
    assert "no such folder" in refused(session, "mv", "torch:mv", cwd="typo").message


def test_a_folder_in_the_place_of_a_file_is_refused(session: Session) -> None:
    (session.root / "scaled_baseline.py").mkdir()

    assert "is a folder" in refused(session, force=True).message


def test_a_new_out_dir_is_gone_after_a_refusal(session: Session) -> None:
    refused(session, reference="mine.py:constant", out_dir="a/b/c")

    assert not (session.root / "a").exists()


def test_a_folder_that_may_not_be_written_is_refused(session: Session) -> None:
    for folder in (session.root, *session.root.parents[:3]):
        folder.chmod(0o755)

    def as_nobody() -> None:
        if os.geteuid() == 0:  # root may write everywhere
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        else:
            session.root.chmod(0o555)

    assert "give write permission there" in in_a_child(lambda: make(session), as_nobody)
    assert [path.name for path in session.root.iterdir()] == ["mine.py"]


def test_a_disk_that_fills_leaves_nothing(session: Session) -> None:
    answer = in_a_child(lambda: make(session), lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))

    assert "was not written" in answer
    assert [path.name for path in session.root.iterdir()] == ["mine.py"]
