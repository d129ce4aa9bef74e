"""The wheel that a release is made of holds what it must, and runs from an environment that has nothing else of ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from hotkernel import __version__

ROOT = Path(__file__).parents[2]
STEP_S = 120


def run(*argv: str | Path, cwd: Path = ROOT, stdin: str = "") -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([str(part) for part in argv], cwd=cwd, env=environment, input=stdin, capture_output=True, text=True,
                          encoding="utf-8", timeout=STEP_S, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was made of it."""
    pytest.importorskip("hatch_fancy_pypi_readme", reason="the extra `test` has it, and hatchling")
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder, filter="data")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=folder / sdist.name.removesuffix(".tar.gz"))
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel; what it needs of others is this environment's."""
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    (wheel,) = built.glob("*.whl")
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel)
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (own / "others.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return folder / "bin"


def test_the_wheel_holds_both_packages_and_all_that_they_read(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*")
               if path.is_file() and path.suffix != ".pyc" and ".egg-info" not in str(path)}

    assert wheel.name == f"hotkernel-{__version__}-py3-none-any.whl"
    assert sources <= names
    assert {name.split("/")[0] for name in names} == {"hotkernel", "hotkernel_contract", f"hotkernel-{__version__}.dist-info"}


def test_every_link_of_the_readme_leads_somewhere_on_pypi_too(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    packed = zipfile.ZipFile(wheel)
    metadata = packed.read(f"hotkernel-{__version__}.dist-info/METADATA").decode("utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", metadata)

    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_installed_command_is_the_wheels_and_knows_its_tools(installed: Path) -> None:
    where = run(installed / "python", "-c", "import hotkernel; print(hotkernel.__file__)")

    assert str(installed.parent) in where
    assert run(installed / "hotkernel", "--version") == f"hotkernel {__version__}\n"
    assert "verify" in run(installed / "hotkernel", "--help")
    assert "attainable_ms" in run(installed / "hotkernel", "roofline", "--gpu", "h200", "--bytes", "1e9")


def test_the_installed_command_serves_mcp(installed: Path, tmp_path: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}
    answer = json.loads(run(installed / "hotkernel", cwd=tmp_path, stdin=json.dumps(hello) + "\n"))

    assert answer["result"]["serverInfo"]["version"] == __version__


def test_what_was_installed_from_a_file_is_given_to_clients_as_it_lies(installed: Path) -> None:
    said = run(installed / "hotkernel", "install", "--client", "cursor")

    assert str(installed) in said
    assert "uvx" not in said
