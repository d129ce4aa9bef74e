"""The targets for the card, on the CPU with small shapes: their honest candidates are right, their wrong ones are not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import Judged
from workers import Nest, start_zygote

from hotkernel.harness.zygote import Zygote

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
TARGETS = Path(__file__).parents[1] / "gpu" / "targets"
NAMES = sorted(file.name.removesuffix("_baseline.py") for file in TARGETS.glob("*_baseline.py"))


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    zygote = start_zygote(tmp_path_factory.mktemp("zygote"))
    yield zygote
    zygote.close()


@pytest.fixture
def nest(zygote: Zygote, tmp_path: Path) -> Iterator[Nest]:
    nest = Nest(zygote, tmp_path)
    yield nest
    nest.close()


def source(name: str, kind: str) -> str:
    text = (TARGETS / f"{name}_{kind}.py").read_text(encoding="utf-8")
    return text.replace(f"def {name}_candidate", "def candidate").replace("LARGE = torch.cuda.is_available()", "LARGE = False")


def test_there_are_ten() -> None:
    assert len(NAMES) == 10


@pytest.mark.parametrize("name", NAMES)
def test_the_honest_candidate_is_right_and_the_wrong_one_is_not(nest: Nest, name: str) -> None:
    text = source(name, "baseline").replace(f'name="{name}",', f'name="{name}", device="cpu",')
    judged = Judged(nest, text)
    baseline, honest = judged.worker(text, is_baseline=True), judged.worker(source(name, "honest"))
    judged.run(baseline, honest)
    for kind in judged.said["rounds"]:
        judged.run(honest, baseline, kind=kind)

    assert judged.fault_of(source(name, "wrong"), baseline).fault.kind == "incorrect"
