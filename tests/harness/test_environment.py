"""A measured process sees what torch and its compilers need of the environment, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotkernel.harness.environment import allowed, private


@pytest.mark.parametrize("name", [
    "HF_TOKEN", "GITHUB_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "SSH_AUTH_SOCK", "DATABASE_URL", "PGPASSWORD", "WANDB_API_KEY", "HOTKERNEL_STATE_DIR", "HOTKERNEL_PYTHON",
    # what looks like an allowed family and is a secret
    "TORCH_HUB_TOKEN", "NVIDIA_API_KEY", "CUDA_LICENSE_SECRET", "NCCL_AUTH_PASSWORD", "TRITON_CACHE_TOKEN", "NVIDIA_API_KEYS",
    "NVIDIA_API_KEY_2", "TORCH_PASSWD", "NVIDIA_CREDENTIALS", "nvidia_api_key",
    # what changes how a process starts
    "LD_PRELOAD", "LD_AUDIT", "PYTHONSTARTUP", "PYTHONINSPECT", "BASH_ENV",
])
def test_no_token_key_or_secret_is_seen(name):
    assert allowed({name: "secret", "PATH": "/usr/bin"}) == {"PATH": "/usr/bin"}


@pytest.mark.parametrize("name", [
    "PATH", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "CUDA_VISIBLE_DEVICES",
    "TORCH_CUDA_ARCH_LIST", "TORCHINDUCTOR_MAX_AUTOTUNE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TRITON_PTXAS_PATH", "CC",
])
def test_what_torch_and_its_compilers_need_is_seen(name):
    assert allowed({name: "value"}) == {name: "value"}


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    environment = {"PATH": "/usr/bin", "HOME": "/home/user", "TMPDIR": "/tmp", "TRITON_CACHE_DIR": "/home/user/.triton",
                   "CUDA_VISIBLE_DEVICES": "3", "HF_TOKEN": "secret",
                   "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    return private(environment, tmp_path / "scratch", tmp_path / "caches", "GPU-1234")


def test_home_scratch_and_caches_are_the_sides_own_and_there(given, tmp_path):
    own = [name for name, value in given.items() if str(tmp_path) in value]

    assert {"HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR",
            "CUDA_CACHE_PATH"} == set(own)
    assert all(Path(given[name]).is_dir() for name in own)


def test_the_users_home_and_secrets_are_not_in_it(given):
    assert "/home/user" not in "".join(given.values())
    assert "secret" not in given.values()


def test_one_card_is_seen_and_memory_that_can_be_exported(given):
    assert given["CUDA_VISIBLE_DEVICES"] == "GPU-1234"
    assert given["PYTORCH_CUDA_ALLOC_CONF"] == given["PYTORCH_ALLOC_CONF"] == "expandable_segments:False"


def test_without_a_card_the_users_choice_stands(tmp_path):
    chosen = private({"CUDA_VISIBLE_DEVICES": "1"}, tmp_path / "scratch", tmp_path / "caches", "")

    assert chosen["CUDA_VISIBLE_DEVICES"] == "1"


def test_two_sides_share_no_folder_that_they_can_write(tmp_path):
    one = private({}, tmp_path / "a", tmp_path / "cache-a", "")
    other = private({}, tmp_path / "b", tmp_path / "cache-b", "")
    folders = {name for name in one if str(tmp_path) in one[name]}

    assert not {one[name] for name in folders} & {other[name] for name in folders}
