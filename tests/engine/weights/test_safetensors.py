"""Model folders: single files and shards; the index alone says what belongs to the model."""

from pathlib import Path
import re

import pytest
from safetensors.torch import save_file
import torch

from local_llm_engine.errors import WeightFormatError
from local_llm_engine.weights.safetensors import SafetensorsFolder

from .files import safetensors_bytes, write_file, write_shards

SHARDS = {
    "model-00001-of-00003.safetensors": ["a", "b"],
    "model-00002-of-00003.safetensors": ["c"],
    "model-00003-of-00003.safetensors": ["d", "e"],
}


def mapped_addresses(file: Path) -> list[range]:
    """Return the address ranges at which this process has mapped `file`."""
    lines = [
        line.split()
        for line in Path("/proc/self/maps").read_text().splitlines()
        if str(file) in line
    ]
    bounds = [line[0].split("-") for line in lines]
    return [range(int(start, 16), int(end, 16)) for start, end in bounds]


def test_single_file(tmp_path: Path) -> None:
    write_file(tmp_path, safetensors_bytes())
    assert list(SafetensorsFolder.open(tmp_path).infos) == ["first", "second"]


def test_shards(tmp_path: Path) -> None:
    write_shards(tmp_path, SHARDS)
    infos = SafetensorsFolder.open(tmp_path).infos
    assert {name: info.file.name for name, info in infos.items()} == {
        tensor: file_name for file_name, names in SHARDS.items() for tensor in names
    }


def test_tensor_has_the_bits_of_the_file_and_stays_mapped(tmp_path: Path) -> None:
    expected = torch.randn(
        50, 20, generator=torch.Generator().manual_seed(42)
    ).bfloat16()
    file = tmp_path / "model.safetensors"
    save_file({"weight": expected}, file)
    tensor = SafetensorsFolder.open(tmp_path).tensor("weight")
    assert torch.equal(tensor, expected)
    assert any(tensor.data_ptr() in addresses for addresses in mapped_addresses(file))


def test_writing_to_a_tensor_leaves_the_file_alone(tmp_path: Path) -> None:
    file = write_file(tmp_path, safetensors_bytes())
    before = file.read_bytes()
    SafetensorsFolder.open(tmp_path).tensor("first").zero_()
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "stray",
    ["model.safetensors", "extra.safetensors", "model-00004-of-00003.safetensors"],
)
@pytest.mark.parametrize(
    "content", [safetensors_bytes(), b"damaged"], ids=["sound", "damaged"]
)
def test_stray_file_is_ignored_where_there_is_an_index(
    tmp_path: Path, stray: str, content: bytes
) -> None:
    write_shards(tmp_path, SHARDS)
    write_file(tmp_path, content, stray)
    assert sorted(SafetensorsFolder.open(tmp_path).infos) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("shard", list(SHARDS))
def test_missing_shard_is_refused_by_name(tmp_path: Path, shard: str) -> None:
    write_shards(tmp_path, SHARDS)
    (tmp_path / shard).unlink()
    with pytest.raises(
        WeightFormatError, match=re.escape(f"{tmp_path / shard}: is missing")
    ):
        SafetensorsFolder.open(tmp_path)


def test_damaged_shard_is_refused_by_name(tmp_path: Path) -> None:
    write_shards(tmp_path, SHARDS)
    shard = tmp_path / "model-00002-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(WeightFormatError, match=re.escape(f"{shard}: is cut short")):
        SafetensorsFolder.open(tmp_path)


def test_no_weights(tmp_path: Path) -> None:
    with pytest.raises(
        WeightFormatError,
        match=r"holds neither model\.safetensors nor model\.safetensors\.index\.json",
    ):
        SafetensorsFolder.open(tmp_path)


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        pytest.param([], "needs an object 'weight_map'", id="list"),
        pytest.param({"metadata": {}}, "needs an object 'weight_map'", id="no map"),
        pytest.param(
            {"weight_map": {}}, "needs an object 'weight_map'", id="empty map"
        ),
        pytest.param(
            {"weight_map": {"a": 7}}, "tensor 'a' points to 7", id="number as file"
        ),
        pytest.param(
            {"weight_map": {"a": "../one.safetensors"}},
            "right is a file name in the same folder",
            id="outside",
        ),
        pytest.param(
            {"weight_map": {"a": "one\0"}},
            r"points to 'one\\x00'; right is a file name",
            id="name that is none",
        ),
        pytest.param(
            {"weight_map": {"a": "o" * 1_000_000}},
            r"points to 'o{1,40}\.\.\.o{1,40}'; right is a file name",
            id="endless name",
        ),
        pytest.param(
            {"weight_map": {"a": "/etc/passwd"}},
            "right is a file name in the same folder",
            id="absolute",
        ),
        pytest.param(
            {"weight_map": {"a": "one", "b": "one", "z": "one"}},
            "tensor 'z' is missing",
            id="tensor not in its file",
        ),
        pytest.param(
            {"weight_map": {"b": "one"}},
            "holds tensor 'a', but .* does not list it",
            id="tensor not listed",
        ),
        pytest.param(
            {"weight_map": {"a": "two", "b": "one"}},
            "holds tensor 'a', but .* puts it into two",
            id="moved",
        ),
    ],
)
def test_index_that_does_not_fit(tmp_path: Path, index: object, problem: str) -> None:
    write_shards(tmp_path, {"one": ["a", "b"], "two": ["b"]}, index)
    with pytest.raises(WeightFormatError, match=problem):
        SafetensorsFolder.open(tmp_path)


def test_an_index_larger_than_any_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "model.safetensors.index.json").open("wb") as stream:
        stream.truncate((64 << 20) + 1)
    with pytest.raises(WeightFormatError, match="67,108,865 bytes long"):
        SafetensorsFolder.open(tmp_path)


@pytest.mark.parametrize(
    "content", [b"{", b"\xff\xfe", b"[" * 100_000], ids=["cut", "no UTF-8", "too deep"]
)
def test_index_that_is_no_json(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors.index.json").write_bytes(content)
    with pytest.raises(WeightFormatError, match=r"index\.json: is not valid JSON"):
        SafetensorsFolder.open(tmp_path)
