"""The archive of a release: what is in it, and that it works where nothing else of ours is."""

import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
from zipfile import ZipFile

import pytest

from scripts.lib import release_files
from scripts.lib.release_files import ENGINE, INTEGRATION, ROOT, pack

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


def test_every_file_must_name_the_version_to_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = release_files.versions()
    (version,) = set(found.values())
    assert release_files.check(version) is None
    manifest = str(INTEGRATION / "manifest.json")
    monkeypatch.setattr(release_files, "versions", lambda: found | {manifest: "9.9.9"})
    assert f"{manifest} says 9.9.9" in (release_files.check(version) or "")
