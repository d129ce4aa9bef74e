"""Claims about new_target: what it writes runs with plain python, and what cannot judge is refused in the contract's words."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import stand_ins
from target_makers import MINE, make, plain_line, refused, session

from hotkernel.records import pins
from hotkernel.records.state import state_dir
from hotkernel.schema.plain import to_plain
from hotkernel.schema.target import NewTarget
from hotkernel.session import Session

__all__ = ["session"]  # a fixture


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, NewTarget]:
    """A target of the user's own function, for the claims that only look at it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    session = stand_ins.session(folder, HOTKERNEL_STATE_DIR=str(folder / "state"))
    return session, make(session)


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


# Beyond one float tensor ----------------------------------------------------------------------------------------------

KINDS = '''
import torch

class Mlp(torch.nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.up = torch.nn.Linear(32, width)

    def forward(self, x):
        return torch.relu(self.up(x))

model = Mlp(8)

def accumulate(x, y, scale):
    x.add_(y, alpha=scale)

def parts(x):
    return {"sin": x.sin(), "signs": (x > 0, x < 0)}
'''


@pytest.mark.parametrize(("from_", "given", "inputs", "output"), [
    ("kinds.py:Mlp", {"more": ["constant.width=16"]}, ["x", "weights.up.weight", "weights.up.bias"], "16x16:fp32"),
    ("kinds.py:model", {}, ["x", "weights.up.weight", "weights.up.bias"], "16x8:fp32"),
    ("kinds.py:model.forward", {}, ["x", "weights.up.weight", "weights.up.bias"], "16x8:fp32"),
    ("torch.nn:Linear", {"more": ["constant.in_features=32", "constant.out_features=4", "static=weights"]},
     ["x", "weights.weight", "weights.bias"], "16x4:fp32"),
    ("kinds.py:accumulate", {"extra": ["y:16x32"], "more": ["writes=x", "constant.scale=0.5"], "rotate": ["y"]}, ["x", "y"],
     "16x32:fp32"),
    ("kinds.py:parts", {"mixture": "normal"}, ["x"],
     "output.signs[0] 16x32:bool, output.signs[1] 16x32:bool, output.sin 16x32:fp32"),
    ("torch:sin", {"mixture": "normal", "more": ["backward=true"]}, ["x", "grad_of.output"],
     "output 16x32:fp32, grad x 16x32:fp32"),
    ("torch:sin", {"mixture": "normal", "more": ["case.a=x:8x8", "case.b=x:4x4", "baseline.kinds=kinds.py:torch.sin"]}, ["x"],
     "8x8:fp32"),
])
def test_a_target_of_another_kind_is_made_with_no_hand_edit_and_its_files_run(
        session: Session, from_: str, given: dict[str, Any], inputs: list[str], output: str) -> None:
    (session.root / "kinds.py").write_text(KINDS, encoding="utf-8")
    target = make(session, "kind", from_, **{"extra": None, **given})

    assert (list(target.inputs), target.output) == (inputs, output)
    for side in ("baseline", "candidate"):
        status, line = plain_line(Path(target.files[side]))
        assert (status, line["ok"]) == (0, True)


def test_numbers_from_a_file_are_pinned_with_the_target(session: Session) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.arange(32.0)}, session.root / "weights.pt")
    target = make(session, "filed", extra=["w:file=weights.pt"])

    assert str(session.root / "weights.pt") in target.pinned
    assert plain_line(Path(target.files["candidate"]))[0] == 0


def test_a_case_that_cannot_be_judged_is_refused_by_its_name(session: Session) -> None:
    assert "case b: the function, called with x [4, 3], w [32]" in str(refused(session, more=["case.a=x:8x32", "case.b=x:4x3"]))


def test_a_baseline_that_answers_otherwise_is_refused_by_its_name(session: Session) -> None:
    (session.root / "other.py").write_text("def other(x, w):\n    return (x * w * 3.0).half()\n", encoding="utf-8")

    assert "the baseline 'other' returns another kind" in str(refused(session, more=["baseline.other=other.py:other"]))
