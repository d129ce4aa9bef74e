"""Claims about new_target: what it writes runs with plain python, what cannot judge is refused, and a refusal leaves nothing."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stand_ins import session as session_in

from hotkernel.errors import ToolError
from hotkernel.records import pins
from hotkernel.records.state import state_dir
from hotkernel.schema.plain import to_plain
from hotkernel.schema.target import NewTarget
from hotkernel.session import Session
from hotkernel.tools.targets import new_target

MINE = '''
import torch

FACTOR = 3.0

def scaled(x, w):
    return x * w * FACTOR

def one(x):
    return x * 2.0

def constant(x, w):
    return torch.ones_like(x)

def gather(x, idx, keep):
    return x[idx] * keep[:, None]

def quantised(raw):
    scale = raw["x"].abs().amax(1, keepdim=True).float().clamp(min=1e-6) / 127
    return {"q": (raw["x"].float() / scale).round().to(torch.int8), "scale": scale, "v": raw["v"]}

def dequantised_mv(q, scale, v):
    return (q.float() * scale) @ v

if __name__ == "__main__":
    raise SystemExit("ran as a script")
'''


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine.py").write_text(MINE, encoding="utf-8")
    return session_in(tmp_path / "work", HOTKERNEL_STATE_DIR=str(tmp_path / "state"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, NewTarget]:
    """A target of the user's own function, for the claims that only look at it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    session = session_in(folder, HOTKERNEL_STATE_DIR=str(folder / "state"))
    return session, make(session)


def make(session: Session, target: str = "scaled", from_: str = "./mine.py:scaled", **given: Any) -> NewTarget:
    known: dict[str, Any] = {"shape": "16x32", "extra": ["w:32"], "dtype": "fp32", "device": "cpu", "iters": 4}
    return new_target(session, target, from_, **{**known, **given})


def refused(session: Session, *words: str, **given: Any) -> ToolError:
    """The refusal of a target, which must leave everything as it was."""
    before = listing(session.root)
    with pytest.raises(ToolError) as caught:
        make(session, *words, **given)
    assert listing(session.root) == before
    return caught.value


def listing(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
            if "__pycache__" not in str(path)}


def plain_line(file: Path) -> tuple[int, dict[str, Any]]:
    """Exit status and line of a target's file under plain python, with nothing of ours within reach."""
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=60, check=False, cwd="/", env={})
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def in_a_child(what: Callable[[], object], before: Callable[[], None]) -> str:
    """The text of the refusal that `what` gets in a forked process, where `before` takes something away."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before()
            answer = f"made {what()}"
        except ToolError as error:
            answer = str(error)
        except BaseException as error:  # noqa: BLE001 - whatever it was, the parent must hear of it
            answer = f"bug: {error!r}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def test_the_answer_says_what_was_written_what_a_call_takes_and_what_to_do_next(made: tuple[Session, NewTarget]) -> None:
    session, target = made
    plain = to_plain(target)

    assert plain["files"] == {"contract": str(session.root / "hotkernel_contract.py"),
                              "baseline": str(session.root / "scaled_baseline.py"),
                              "candidate": str(session.root / "scaled_candidate.py")}
    assert all(Path(path).is_file() for path in plain["files"].values())
    assert (plain["target"], plain["protocol"], plain["dtype"], plain["rotate"]) == ("scaled", 4, "fp32", ["x"])
    assert plain["inputs"] == {"x": "16x32:fp32", "w": "32:fp32"}
    assert "hotkernel verify scaled_candidate.py scaled_baseline.py" in plain["next"]


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_both_files_run_with_plain_python(made: tuple[Session, NewTarget], side: str) -> None:
    status, line = plain_line(Path(made[1].files[side]))

    assert status == 0
    assert line["ok"] is True
    assert line["ms"] > 0
    assert (line["impl"], line["shapes"]) == (side, {"x": [16, 32], "w": [32]})


def test_a_candidate_that_was_made_wrong_says_so_and_ends_with_status_1(made: tuple[Session, NewTarget]) -> None:
    candidate = Path(made[1].files["candidate"])
    wrong = candidate.with_name("wrong.py")
    wrong.write_text(candidate.read_text(encoding="utf-8").replace("FACTOR = 3.0", "FACTOR = 3.01"), encoding="utf-8")

    status, line = plain_line(wrong)

    assert (status, line["ok"]) == (1, False)
    assert "wrong" in line["why"]


def test_a_targets_folder_runs_where_it_is_moved_to(made: tuple[Session, NewTarget], tmp_path: Path) -> None:
    moved = shutil.copytree(made[0].root, tmp_path / "elsewhere")
    (moved / "mine.py").write_text(MINE.replace("3.0", "5.0"), encoding="utf-8")

    status, line = plain_line(moved / "scaled_candidate.py")

    assert (status, line["ok"]) == (1, False)  # the baseline is the moved file's, the candidate still the copy's


def test_what_the_target_stands_on_is_pinned(made: tuple[Session, NewTarget]) -> None:
    session, target = made
    baseline = Path(target.files["baseline"])

    known = pins.load(state_dir(session.environment), baseline)

    assert set(known) == {str(baseline), str(session.root / "mine.py")} == set(target.pinned)
    assert all(len(sha256) == 64 for sha256 in known.values())


def test_a_library_function_becomes_a_candidate_of_one_call(session: Session) -> None:
    target = make(session, "mv", "torch:mv", shape="16x32", extra=["v:32"], out_dir="new/folder", flops=1024)

    assert not target.candidate_is_copy
    assert "    return torch.mv(x, v)\n" in Path(target.files["candidate"]).read_text(encoding="utf-8")
    assert sorted(path.name for path in (session.root / "new" / "folder").iterdir() if path.suffix == ".py") == [
        "hotkernel_contract.py", "mv_baseline.py", "mv_candidate.py"]
    assert plain_line(Path(target.files["baseline"]))[1]["flops"] == 1024


def test_integers_and_booleans_may_go_in(session: Session) -> None:
    target = make(session, "gather", "mine.py:gather", shape="100x16", extra=["idx:50:int64<100", "keep:50:bool"], rotate=["idx"])

    assert target.inputs == {"x": "100x16:fp32", "idx": "50:int64", "keep": "50:bool"}
    assert target.rotate == ("idx",)


def test_an_integer_may_come_out(session: Session) -> None:
    (session.root / "top.py").write_text("def top(x):\n    return x.argmax(-1)\n", encoding="utf-8")

    assert make(session, "top", "top.py:top", extra=None).output == "16:int64"


def test_derived_inputs_are_what_the_candidate_takes(session: Session) -> None:
    target = make(session, "deq", "mine.py:dequantised_mv", shape="16x32", extra=["v:32"], derive="mine.py:quantised",
                  inputs=["q", "scale", "v"], reference="mine.py:dequantised_mv", rotate=["q"], min_bytes=16 * 32)

    assert target.inputs == {"q": "16x32:int8", "scale": "16x1:fp32", "v": "32:fp32"}
    assert "def deq_candidate(q, scale, v):" in Path(target.files["candidate"]).read_text(encoding="utf-8")


@pytest.fixture
def with_neighbour(session: Session) -> Session:
    (session.root / "neighbour.py").write_text("def twice(x):\n    return x + x\n", encoding="utf-8")
    (session.root / "user.py").write_text("from neighbour import twice\ndef doubled(x):\n    return twice(x)\n", encoding="utf-8")
    return session


def test_a_file_that_imports_its_neighbour_is_copied_into_their_folder(with_neighbour: Session) -> None:
    target = make(with_neighbour, "doubled", "user.py:doubled", extra=None)

    assert target.candidate_is_copy
    assert str(with_neighbour.root / "neighbour.py") in target.pinned


def test_a_file_that_imports_its_neighbour_is_called_from_another_folder(with_neighbour: Session) -> None:
    target = make(with_neighbour, "doubled", "user.py:doubled", extra=None, out_dir="elsewhere")

    assert not target.candidate_is_copy
    assert "No module named 'neighbour'" in target.warnings[0]
    assert plain_line(Path(target.files["candidate"]))[0] == 0


@pytest.mark.parametrize(("given", "said"), [
    ({"reference": "mine.py:constant"}, "one constant (1.0)"),
    ({"extra": None}, "takes (x, w) and would be called with x"),
    ({"shape": "16x"}, "cannot read '16x'"),
    ({"dtype": "bf17"}, "unknown dtype 'bf17'"),
    ({"from_": "mine.py:absent"}, "mine.py has no 'absent'; it has scaled"),
])
def test_what_the_contract_refuses_is_refused_in_its_words(session: Session, given: dict[str, Any], said: str) -> None:
    error = refused(session, **given)

    assert said in error.message
    assert ".hotkernel-new" not in str(error)
    assert "nothing was written" in error.fix


def test_a_module_that_is_not_there_is_refused_with_the_way_to_name_a_file(session: Session) -> None:
    error = refused(session, "scaled", "nomodule.kernels:fused")

    assert "No module named 'nomodule'" in error.message
    assert "./mykernels.py:fused" in error.fix


def test_a_device_that_is_not_there_is_refused(session: Session) -> None:
    hidden = Session(root=session.root, environment={**session.environment, "CUDA_VISIBLE_DEVICES": ""})

    assert "torch sees no card here" in refused(hidden, device="cuda").message


def test_a_module_that_hangs_is_stopped(session: Session) -> None:
    (session.root / "slow.py").write_text("import time\ntime.sleep(600)\n", encoding="utf-8")

    assert "did not end within" in refused(session, "slow", "slow.py:slow", timeout=2.0).message


def test_a_module_that_ends_python_is_refused(session: Session) -> None:
    (session.root / "leaving.py").write_text("import os\nos._exit(3)\n", encoding="utf-8")

    assert "exit status 3" in refused(session, "leaving", "leaving.py:f").message


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


@pytest.mark.slow
def test_verify_takes_a_fresh_target_and_refuses_one_whose_source_was_edited_since(session: Session) -> None:
    from hotkernel.tools.speed import verify

    target = make(session, shape="64x64", extra=["w:64"])
    untouched = verify(session, target.files["candidate"], target.files["baseline"], n=3)
    (session.root / "mine.py").write_text(MINE.replace("* w * FACTOR", "* FACTOR * w"), encoding="utf-8")
    edited = verify(session, target.files["candidate"], target.files["baseline"], n=3)

    assert untouched.rule != "pins_changed"
    assert edited.rule == "pins_changed"
    assert "mine.py" in edited.reason
