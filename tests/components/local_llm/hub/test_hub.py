"""Models of Hugging Face: found, checked before they are fetched, fetched in as many attempts as it takes."""

from collections.abc import Iterator
import errno
import json
import os
from pathlib import Path
import shutil
from typing import Any
from unittest.mock import patch

import pytest
from safetensors.torch import load_file, save_file

from custom_components.local_llm.failures import EngineUnavailableError
from custom_components.local_llm.hub import files as hub_files
from custom_components.local_llm.hub.files import HubModel
from custom_components.local_llm.hub.hub import CancelledError, Hub
from custom_components.local_llm.hub.models import (
    finish,
    finished_folder,
    unfinished_folder,
)
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.service import Engine

from ..fake_hub import COMMIT, REPOSITORY, FakeHub, serving

WEIGHTS = "model.safetensors"
CHUNK = 1 << 20


@pytest.fixture
def site(tmp_path: Path, socket_enabled: None) -> Iterator[FakeHub]:
    """The built-in model as a repository, with a file that no engine reads."""
    with serving(NANO_PATH, tmp_path / "site") as hub:
        yield hub


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    folder = tmp_path / "probe"
    folder.mkdir()
    return folder


def client(site: FakeHub, token: str | None = None) -> Hub:
    return Hub(token=token, endpoint=site.endpoint, retry_seconds=0)


def look(site: FakeHub, probe: Path, token: str | None = None) -> HubModel:
    return client(site, token).look(REPOSITORY, None, probe)


def download(site: FakeHub, model: HubModel, folder: Path) -> list[int]:
    heard: list[int] = []
    client(site).download(model, folder, heard.append, lambda: False)
    return heard


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def key_of(error: pytest.ExceptionInfo[EngineUnavailableError]) -> str:
    return error.value.failure.key


def test_a_look_is_enough_to_check_and_plan(site: FakeHub, probe: Path) -> None:
    model = look(site, probe)
    assert (model.repository, model.commit) == (REPOSITORY, COMMIT)
    names = {file.name for file in model.files}
    assert WEIGHTS in names
    assert "README.md" not in names
    assert model.nbytes == sum((NANO_PATH / name).stat().st_size for name in names)
    assert Engine.check(probe).num_parameters == Engine.check(NANO_PATH).num_parameters
    assert Engine.plan(probe).device_bytes == Engine.plan(NANO_PATH).device_bytes
    weights = probe / WEIGHTS
    assert weights.stat().st_size == (NANO_PATH / WEIGHTS).stat().st_size
    assert weights.stat().st_blocks * 512 < weights.stat().st_size / 2


def test_what_comes_is_what_the_repository_holds(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    model = look(site, probe)
    heard = download(site, model, tmp_path / "models")
    assert heard == sorted(heard)
    assert heard[-1] == model.nbytes
    assert names_in(tmp_path / "models") == {file.name for file in model.files}
    for file in model.files:
        ours = (tmp_path / "models" / file.name).read_bytes()
        assert ours == (NANO_PATH / file.name).read_bytes()


def test_shards_are_those_that_the_index_names(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    tensors = load_file(NANO_PATH / WEIGHTS)
    shards = ["model-1-of-2.safetensors", "model-2-of-2.safetensors"]
    weight_map = {name: shards[i % 2] for i, name in enumerate(sorted(tensors))}
    for shard in shards:
        part = {name: tensors[name] for name in tensors if weight_map[name] == shard}
        save_file(part, site.folder / shard)
    (site.folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": weight_map})
    )
    model = look(site, probe)
    assert {file.name for file in model.files} >= set(shards)
    assert WEIGHTS not in {file.name for file in model.files}
    Engine.check(probe)
    download(site, model, tmp_path / "models")
    Engine.check(tmp_path / "models")


def test_an_interrupted_transfer_goes_on_by_itself(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    model = look(site, probe)
    site.requests.clear()
    site.cut_after = [3 * CHUNK, 2 * CHUNK]
    download(site, model, tmp_path / "models")
    first, second, third = site.asked(WEIGHTS)
    assert first == "bytes=0-"
    assert second == f"bytes={3 * CHUNK}-"
    assert third == f"bytes={5 * CHUNK}-"


def test_a_connection_that_brings_nothing_is_given_up_and_what_came_is_kept(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    model = look(site, probe)
    site.cut_after = [3 * CHUNK, *[0] * 20]
    with pytest.raises(EngineUnavailableError) as error:
        download(site, model, tmp_path / "models")
    assert key_of(error) == "hub_unreachable"
    site.cut_after = []
    site.requests.clear()
    download(site, model, tmp_path / "models")
    assert site.asked(WEIGHTS) == [f"bytes={3 * CHUNK}-"]
    assert not list((tmp_path / "models").glob("*.partial"))


def test_a_site_that_ends_early_without_a_word_is_given_up(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    model = look(site, probe)
    site.served[WEIGHTS] = b""
    with pytest.raises(EngineUnavailableError) as error:
        download(site, model, tmp_path / "models")
    assert key_of(error) == "download_damaged"


def test_a_cancelled_download_stops_and_goes_on_later(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    model = look(site, probe)
    heard: list[int] = []
    with pytest.raises(CancelledError):
        client(site).download(
            model, tmp_path / "models", heard.append, lambda: heard[-1:] > [4 * CHUNK]
        )
    site.requests.clear()
    download(site, model, tmp_path / "models")
    (asked,) = site.asked(WEIGHTS)
    assert asked != "bytes=0-"


def test_a_site_that_knows_no_ranges_sends_all_again(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    site.ignores_range = True
    model = look(site, probe)
    site.cut_after = [3 * CHUNK]
    download(site, model, tmp_path / "models")
    assert model.files[-1].fits(tmp_path / "models" / WEIGHTS)


@pytest.mark.parametrize("name", [WEIGHTS, "config.json"], ids=["sha256", "git"])
def test_a_wrong_checksum_is_refused_and_fetched_anew(
    site: FakeHub, probe: Path, tmp_path: Path, name: str
) -> None:
    model = look(site, probe)
    right = (site.folder / name).read_bytes()
    site.served[name] = right[:-1] + bytes([right[-1] ^ 1])
    with pytest.raises(EngineUnavailableError) as error:
        download(site, model, tmp_path / "models")
    assert error.value.failure == ("download_damaged", name)
    assert not (tmp_path / "models" / name).exists()
    site.served.clear()
    download(site, model, tmp_path / "models")
    assert (tmp_path / "models" / name).read_bytes() == right


def test_what_is_here_and_right_is_not_fetched_again(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    model = look(site, probe)
    download(site, model, tmp_path / "models")
    site.requests.clear()
    heard = download(site, model, tmp_path / "models")
    assert site.requests == []
    assert heard[-1] == model.nbytes


def test_a_token_is_shown_to_the_hub_alone(site: FakeHub, probe: Path) -> None:
    site.token = "hf_secret"
    look(site, probe, token="hf_secret")
    shown = {request.path: request.authorization for request in site.requests}
    (stored,) = {path for path in shown if path.startswith("/store/")}
    assert shown[stored] is None
    assert shown[f"/api/models/{REPOSITORY}"] == "Bearer hf_secret"


@pytest.mark.parametrize("token", [None, "hf_wrong"], ids=["none", "wrong"])
def test_whom_the_site_does_not_let_in(
    site: FakeHub, probe: Path, token: str | None
) -> None:
    site.token = "hf_secret"
    with pytest.raises(EngineUnavailableError) as error:
        look(site, probe, token)
    expected = {None: "repository_gated", "hf_wrong": "token_refused"}
    assert key_of(error) == expected[token]
    assert "hf_" not in error.value.failure.detail


@pytest.mark.parametrize(
    ("status", "headers", "key"),
    [
        (404, {"X-Error-Code": "RepoNotFound"}, "repository_not_found"),
        (401, {"X-Error-Code": "RepoNotFound"}, "repository_not_found"),
        (401, {}, "token_refused"),
        (404, {"X-Error-Code": "RevisionNotFound"}, "revision_not_found"),
        (403, {"X-Error-Code": "GatedRepo"}, "repository_gated"),
        (403, {}, "token_refused"),
        (500, {}, "hub_refused"),
    ],
    ids=["unknown", "private", "no token", "revision", "gated", "forbidden", "ill"],
)
def test_what_the_site_refuses(
    site: FakeHub, probe: Path, status: int, headers: dict[str, str], key: str
) -> None:
    site.refusals["/api/models/"] = (status, headers)
    with pytest.raises(EngineUnavailableError) as error:
        look(site, probe)
    assert error.value.failure == (key, str(status))


def test_a_file_that_is_refused_in_the_middle(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    model = look(site, probe)
    site.refusals["/resolve/"] = (403, {"X-Error-Code": "GatedRepo"})
    with pytest.raises(EngineUnavailableError) as error:
        download(site, model, tmp_path / "models")
    assert key_of(error) == "repository_gated"


@pytest.mark.parametrize("repository", ["", "a/b/c", "../x", "a b", "x" * 200])
def test_what_is_no_name_of_a_repository(
    site: FakeHub, probe: Path, repository: str
) -> None:
    with pytest.raises(EngineUnavailableError) as error:
        client(site).look(repository, None, probe)
    assert key_of(error) == "repository_invalid"
    assert site.requests == []


def test_no_network(probe: Path, socket_enabled: None) -> None:
    hub = Hub(token=None, endpoint="http://127.0.0.1:9", retry_seconds=0)
    with pytest.raises(EngineUnavailableError) as error:
        hub.look(REPOSITORY, None, probe)
    assert key_of(error) == "hub_unreachable"


def test_a_repository_of_other_weights(site: FakeHub, probe: Path) -> None:
    (site.folder / WEIGHTS).rename(site.folder / "model.gguf")
    with pytest.raises(EngineUnavailableError) as error:
        look(site, probe)
    assert error.value.failure == ("repository_without_weights", WEIGHTS)


@pytest.mark.parametrize(
    "index", ["{", "[]", '{"weight_map": 1}', '{"weight_map": {"a": 1}}']
)
def test_an_index_that_is_none(site: FakeHub, probe: Path, index: str) -> None:
    (site.folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(EngineUnavailableError) as error:
        look(site, probe)
    assert key_of(error) == "weights_damaged"


def test_an_index_leads_nowhere_else(site: FakeHub, probe: Path) -> None:
    (site.folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "../../evil.safetensors"}})
    )
    with pytest.raises(EngineUnavailableError) as error:
        look(site, probe)
    assert error.value.failure == ("repository_without_weights", "evil.safetensors")


@pytest.mark.parametrize("size", [0, 5], ids=["empty", "cut"])
def test_weights_that_are_none_are_seen_before_they_are_fetched(
    site: FakeHub, probe: Path, size: int
) -> None:
    (site.folder / WEIGHTS).write_bytes(b"x" * size)
    look(site, probe)
    assert (probe / WEIGHTS).stat().st_size == size


def test_a_disk_that_is_too_small(site: FakeHub, probe: Path, tmp_path: Path) -> None:
    model = look(site, probe)
    usage = shutil.disk_usage(tmp_path)._replace(free=(1 << 30) + 1000)
    with (
        patch("shutil.disk_usage", return_value=usage),
        pytest.raises(EngineUnavailableError) as error,
    ):
        download(site, model, tmp_path / "models" / "deep")
    assert key_of(error) == "disk_too_small"


@pytest.mark.parametrize(
    ("number", "key"),
    [
        (errno.ENOSPC, "disk_full"),
        (errno.EROFS, "models_folder_unusable"),
    ],
)
def test_a_disk_that_takes_no_more(
    site: FakeHub, probe: Path, tmp_path: Path, number: int, key: str
) -> None:
    model = look(site, probe)
    with (
        patch.object(Path, "touch", side_effect=OSError(number, os.strerror(number))),
        pytest.raises(EngineUnavailableError) as error,
    ):
        download(site, model, tmp_path / "models")
    assert key_of(error) == key


def test_one_model_is_brought_by_one_at_a_time(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    model = look(site, probe)

    def bring_again(*args: Any) -> None:
        download(site, model, tmp_path / "models")

    with (
        patch.object(hub_files.Transfer, "bring", side_effect=bring_again),
        pytest.raises(EngineUnavailableError) as error,
    ):
        download(site, model, tmp_path / "models")
    assert key_of(error) == "already_downloading"


def test_a_finished_model_has_a_folder_of_its_own(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    model = look(site, probe)
    assert finished_folder(models, model) is None
    unfinished = unfinished_folder(models, model)
    download(site, model, unfinished)
    (unfinished / "old.1234.partial").write_text("left")
    folder = finish(models, model)
    assert folder == models / "somebody--tiny-model"
    assert names_in(models) == {folder.name}
    assert not list(folder.glob("*.partial"))
    assert finished_folder(models, model) == folder
    (folder / "config.json").unlink()
    assert finished_folder(models, model) is None


def test_another_commit_lies_beside_it(
    site: FakeHub, probe: Path, tmp_path: Path
) -> None:
    models = tmp_path / "models"
    first = look(site, probe)
    download(site, first, unfinished_folder(models, first))
    older = finish(models, first)
    site.commit = "f" * 40
    second = look(site, probe)
    assert finished_folder(models, second) is None
    download(site, second, unfinished_folder(models, second))
    newer = finish(models, second)
    assert newer.name == f"{older.name}--ffffffffffff"
    assert finished_folder(models, first) == older
    assert finished_folder(models, second) == newer
