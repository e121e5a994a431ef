"""The archive of a release: what is in it, and that it works where nothing else of ours is."""

from hashlib import sha256
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
from zipfile import ZipFile

import pytest

from scripts.lib.release_files import ENGINE, INTEGRATION, ROOT, pack, versions

NAME = "local_llm.zip"
# The bounds of HACS's successor in Home Assistant, for the archive and for what is unpacked from it.
MAX_BYTES = 100 * 1024 * 1024
MAX_MEMBERS = 50_000


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("release") / NAME
    pack(file)
    return file


def test_a_bare_home_is_answered_by_the_engine_inside(
    archive: Path, tmp_path: Path
) -> None:
    """In a process that cannot import any other engine, over HTTP and WebSocket."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "bare_home", str(archive)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "scripts"), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout)
    assert (outcome["before"], outcome["after"]) == ("off", "on")
    assert "Kitchen" in outcome["answer"]
    assert outcome["complaints"] == []
    engine, integration = (
        Path(outcome["modules"][name])
        for name in ("local_llm_engine", "custom_components.local_llm")
    )
    assert integration.is_relative_to(tmp_path)
    assert engine.parent == integration.parent / "engine" / "local_llm_engine"


def test_the_archive_is_the_integrations_folder_with_the_engine(archive: Path) -> None:
    with ZipFile(archive) as packed:
        names = set(packed.namelist())
    assert {
        "LICENSE",
        "__init__.py",
        "manifest.json",
        "brand/icon.png",
        "translations/en.json",
        "engine/local_llm_engine/service.py",
        "engine/local_llm_engine/builtin/nano/model.safetensors",
    } <= names
    parts = {part for name in names for part in Path(name).parts}
    assert not any(part.startswith(".") for part in parts)
    assert not parts & {"__pycache__", "tests", "pyproject.toml"}


def test_the_archive_keeps_within_the_bounds(archive: Path) -> None:
    with ZipFile(archive) as packed:
        sizes = [info.file_size for info in packed.infolist()]
    assert archive.stat().st_size < MAX_BYTES
    assert sum(sizes) < MAX_BYTES
    assert len(sizes) < MAX_MEMBERS


def test_equal_files_make_equal_bytes(archive: Path, tmp_path: Path) -> None:
    """At another time, in another folder, with what tools leave behind."""
    clone = tmp_path / "clone"
    clone.mkdir()
    shutil.copy(ROOT / "LICENSE", clone)
    for folder in (INTEGRATION, ENGINE):
        shutil.copytree(ROOT / folder, clone / folder, copy_function=shutil.copyfile)
    for folder in (clone / INTEGRATION, clone / ENGINE):
        (folder / "__pycache__").mkdir(exist_ok=True)
        (folder / "__pycache__" / "new.pyc").touch()
        (folder / ".DS_Store").touch()
    pack(tmp_path / NAME, clone)
    assert (tmp_path / NAME).read_bytes() == archive.read_bytes()


def release(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts/release", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_script_makes_that_archive(archive: Path, tmp_path: Path) -> None:
    (version,) = set(versions().values())
    done = release(version, tmp_path)
    assert done.returncode == 0, done.stderr
    digest = sha256(archive.read_bytes()).hexdigest()
    assert done.stdout == f"Made {tmp_path / NAME}: {digest}\n"
    assert (tmp_path / NAME).read_bytes() == archive.read_bytes()


def test_every_file_must_name_the_version_to_release(tmp_path: Path) -> None:
    done = release("9.9.9", tmp_path)
    assert done.returncode == 1
    assert all(
        f"{name} says {version}" in done.stderr for name, version in versions().items()
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", ["", "v0.1.0", "0.1", "0.1.0; true"])
def test_what_is_no_version_is_refused(version: str, tmp_path: Path) -> None:
    done = release(version, tmp_path)
    assert done.returncode == 2
    assert "wants the version" in done.stderr
