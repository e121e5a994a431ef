"""What installs us since Home Assistant 2026.11: the marketplace's own code, given what a release and its repository hold.

Where Home Assistant is older this is skipped; scripts/canary runs it with the newest.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from custom_components.local_llm.const import DOMAIN
from homeassistant.core import HomeAssistant
from scripts.lib.release_files import INTEGRATION, ROOT, pack

pytest.importorskip("homeassistant.components.marketplace")

from homeassistant.components.marketplace.const import MAX_DOWNLOAD_SIZE
from homeassistant.components.marketplace.repositories.base import RepositoryManifest
from homeassistant.components.marketplace.repositories.integration import (
    IntegrationRepository,
)
from homeassistant.components.marketplace.utils.validate import (
    INTEGRATION_MANIFEST_VALUES,
    REPOSITORY_MANIFEST_VALUES,
    Validate,
)

REPOSITORY = "local-llm/local-llm"
# What HACS reads and the marketplace does not
ONLY_HACS = {"render_readme"}


def load(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / path).read_text(encoding="utf-8"))
    return content


class Marketplace(SimpleNamespace):
    """As much of the marketplace as an installation asks for: what it downloads is our release."""

    hass: HomeAssistant
    archive: bytes

    async def async_download_file(self, file: Any) -> bytes:
        assert file.path == f"{REPOSITORY}/releases/download/v0.1.0/local_llm.zip"
        return self.archive

    async def async_save_file(self, location: str, content: bytes) -> bool:
        await self.hass.async_add_executor_job(Path(location).write_bytes, content)
        return True


@pytest.fixture
def archive(tmp_path: Path) -> bytes:
    pack(tmp_path / "local_llm.zip")
    return (tmp_path / "local_llm.zip").read_bytes()


def test_every_value_of_the_two_manifests_is_taken() -> None:
    hacs = load(Path("hacs.json"))
    assert set(hacs) - ONLY_HACS <= set(REPOSITORY_MANIFEST_VALUES)
    taken = RepositoryManifest.from_dict(hacs)
    for key in set(hacs) - ONLY_HACS:
        assert getattr(taken, key) == hacs[key]
    manifest = load(INTEGRATION / "manifest.json")
    for key, validate in INTEGRATION_MANIFEST_VALUES.items():
        assert validate(manifest[key]) == manifest[key]


async def test_the_marketplace_installs_a_release(
    hass: HomeAssistant, archive: bytes
) -> None:
    assert len(archive) < MAX_DOWNLOAD_SIZE
    core = SimpleNamespace(config_path=hass.config.config_dir)
    repository = IntegrationRepository(
        Marketplace(hass=hass, archive=archive, core=core),  # type: ignore[arg-type]
        REPOSITORY,
    )
    repository.repository_manifest = RepositoryManifest.from_dict(
        load(Path("hacs.json"))
    )
    repository._use_integration_manifest(load(INTEGRATION / "manifest.json"))
    repository.content.path.local = repository.localpath
    repository.ref = "v0.1.0"
    assert repository.should_try_releases
    validate = Validate()
    await repository.download_zip_files(validate)
    assert validate.errors == []
    await repository.async_check_written_content()
    assert not await repository.async_replaces_built_in()
    installed = Path(hass.config.path("custom_components", DOMAIN))
    assert (installed / "engine/local_llm_engine/service.py").is_file()
