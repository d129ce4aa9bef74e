"""How clients are told of hotkernel: the files that `hotkernel install` writes are the ones that clients read."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path

import pytest

from hotkernel import install
from hotkernel.errors import ToolError

LAUNCH = install.Launch("uvx", ("hotkernel",), {"HOTKERNEL_PYTHON": "/v/bin/python"})
BY_NAME = {each.name: each for each in install.CLIENTS}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("APPDATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(path: Path) -> dict:
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


@pytest.mark.parametrize("client", install.CLIENTS, ids=lambda client: client.name)
def test_a_written_file_starts_hotkernel(client: install.Client) -> None:
    install.write(client, LAUNCH)
    entry = read(client.path())[client.key]["hotkernel"]
    assert [entry["command"], *entry["args"]] == ["uvx", "hotkernel"]
    assert entry["env"] == {"HOTKERNEL_PYTHON": "/v/bin/python"}
    assert "already" in install.write(client, LAUNCH)


@pytest.mark.parametrize("client", install.CLIENTS, ids=lambda client: client.name)
def test_what_stood_in_a_file_stays(client: install.Client) -> None:
    path = client.path()
    path.parent.mkdir(parents=True, exist_ok=True)
    before = ('model = "x"  # mine\n\n[mcp_servers.other]\ncommand = "other"\n' if path.suffix == ".toml"
              else json.dumps({"theme": "dark", client.key: {"other": {"command": "other"}}}))
    path.write_text(before, encoding="utf-8")
    install.write(client, LAUNCH)
    after = read(path)
    assert set(after[client.key]) == {"other", "hotkernel"}
    assert after.get("theme", after.get("model")) in ("dark", "x")
    assert path.with_name(f"{path.name}.before-hotkernel").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("name", ["cursor", "codex"])
def test_a_file_that_cannot_be_understood_is_left_alone(name: str) -> None:
    path = BY_NAME[name].path()
    path.parent.mkdir(parents=True)
    path.write_text("{ // a comment\n", encoding="utf-8")
    with pytest.raises(ToolError, match="by hand"):
        install.write(BY_NAME[name], LAUNCH)
    assert path.read_text(encoding="utf-8") == "{ // a comment\n"


def test_another_hotkernel_is_not_written_over() -> None:
    install.write(BY_NAME["cursor"], LAUNCH)
    with pytest.raises(ToolError, match="another hotkernel") as refused:
        install.write(BY_NAME["cursor"], install.Launch("uvx", ("hotkernel",), {}))
    assert "uvx" in refused.value.detail


def test_codex_is_told_which_variables_to_pass_and_to_be_patient() -> None:
    install.write(BY_NAME["codex"], LAUNCH)
    entry = read(BY_NAME["codex"].path())["mcp_servers"]["hotkernel"]
    assert {"CUDA_HOME", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"} <= set(entry["env_vars"])
    assert entry["startup_timeout_sec"] >= 60
    assert entry["tool_timeout_sec"] >= 900


def test_claudes_command_has_the_name_before_its_options() -> None:
    launch = install.Launch("uvx", ("hotkernel",), {"HOTKERNEL_PYTHON": "/my venv/bin/python"})
    words = shlex.split(BY_NAME["claude-code"].command(launch) or "")
    assert words == ["claude", "mcp", "add", "hotkernel", "-e", "HOTKERNEL_PYTHON=/my venv/bin/python", "--", "uvx",
                     "hotkernel"]


def test_the_command_prints_by_default_and_writes_on_demand(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install.main(["--client", "gemini", "--python", "/v/bin/python"]) == 0
    assert '"HOTKERNEL_PYTHON": "/v/bin/python"' in capsys.readouterr().out
    assert not list(home.rglob("settings.json"))
    assert install.main(["--client", "gemini", "--write"]) == 0
    assert "start Gemini CLI again" in capsys.readouterr().out
    assert (home / ".gemini" / "settings.json").is_file()


def test_here_starts_this_very_installation(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    install.main(["--client", "cursor", "--here"])
    assert sys.executable in capsys.readouterr().out


def test_what_came_from_a_repository_is_started_from_there_and_not_from_pypi() -> None:
    """As uv writes direct_url.json for `uvx --from git+URL` and `uvx --from git+URL@REVISION`."""
    url, commit = "https://github.com/me/hotkernel", '"commit_id": "4ab0d1"'
    plain = f'{{"url": "{url}", "vcs_info": {{"vcs": "git", {commit}}}}}'
    revision = f'{{"url": "{url}", "vcs_info": {{"vcs": "git", {commit}, "requested_revision": "v0.2.0"}}}}'

    assert install.uvx_arguments(None) == ("hotkernel",)
    assert install.uvx_arguments(plain) == ("--from", f"git+{url}", "hotkernel")
    assert install.uvx_arguments(revision) == ("--from", f"git+{url}@v0.2.0", "hotkernel")


def test_what_lies_on_this_machine_alone_is_started_as_it_lies() -> None:
    assert install.uvx_arguments('{"url": "file:///home/me/hotkernel", "dir_info": {"editable": true}}') is None


def test_writing_needs_a_client() -> None:
    with pytest.raises(SystemExit) as left:
        install.main(["--write"])
    assert left.value.code == 2
