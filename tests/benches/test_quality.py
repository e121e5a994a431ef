"""The bench of quality: a model may be a folder or a GGUF file, and its peer is what the gguf package makes of it."""

from importlib import import_module
import json
from pathlib import Path
import sys
from typing import Any

from gguf import GGMLQuantizationType as Type
import pytest
from torch.testing import assert_close

from tests.engine.gguf_files import write_gguf
from tests.engine.models.checkpoints import random_tokens
from tests.engine.models.oracles import make, publish
from tests.engine.models.test_qwen3_5 import run
from tests.engine.test_service_gguf import write_model

FORMATS = ["plain in bfloat16", "KV in int8", "int8", "int4", "Q4_0 of gguf"]


def test_a_file_is_measured_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is left beside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    file = write_model(folder / "model.gguf", "qwen3", Type.F16)
    to = tmp_path / "bench.json"
    arguments = ["quality", "--model", str(file), "--tokens", "30", "--json", str(to)]
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    import_module("benches.command_line").main()
    values: dict[str, Any] = json.loads(to.read_text(encoding="utf-8"))
    assert values["model"] == "model.gguf"
    assert [own["name"] for own in values["formats"]] == FORMATS
    assert {own["num_tokens"] for own in values["formats"]} == {30}
    assert [path.name for path in folder.iterdir()] == ["model.gguf"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--tokens", "0"], "a whole number of at least 1 is wanted, not 0"),
        (["--model", "two"], "holds 2 GGUF files"),
        (["--model", "two/a.gguf"], "two/a.gguf: is cut short"),
        (["--model", "none"], "there is no folder and no file none"),
    ],
    ids=["nothing to compare", "two files", "a damaged file", "no file"],
)
def test_what_cannot_be_measured_is_told_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    problem: str,
) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    for name in ("a.gguf", "b.gguf"):
        (folder / name).write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench", "quality", *arguments])
    with pytest.raises(SystemExit) as ended:
        import_module("benches.command_line").main()
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("tensors_a_part", [0, 9], ids=["one file", "several parts"])
@pytest.mark.parametrize("kind", ["llama", "qwen3_moe"])
def test_the_peer_of_a_file_is_that_of_the_folder(
    tmp_path: Path, kind: str, tensors_a_part: int
) -> None:
    """The same matrices get the same formats under either names, of each row the same blocks."""
    blocks = {"hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32}
    oracle = make(kind, {**blocks, "head_dim": 16, "mlp_only_layers": []})
    folder = publish(tmp_path / "folder", kind, oracle)
    (tmp_path / "file").mkdir()
    write_gguf(tmp_path / "file" / "model.gguf", kind, oracle, tensors_a_part=tensors_a_part)  # fmt: skip
    tokens = random_tokens(20)
    peers = []
    for path in (folder, tmp_path / "file"):
        scratch = tmp_path / f"peer of {path.name}"
        scratch.mkdir()
        model, nbytes = import_module("benches.quality.peer").load_peer(path, scratch)
        peers.append((run(model, tokens, [20]), nbytes))
    (of_folder, folder_bytes), (of_file, file_bytes) = peers
    assert_close(of_file, of_folder, rtol=1e-4, atol=1e-4)
    assert abs(file_bytes - folder_bytes) <= 64
