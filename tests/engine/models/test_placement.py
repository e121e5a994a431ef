"""Device and dtype: what is asked for is taken, "auto" follows the machine."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from local_llm_engine.config import Dtype
from local_llm_engine.errors import ModelLoadError
from local_llm_engine.models.placement import (
    choose_device,
    choose_dtype,
    choose_num_threads,
    has_fast_bfloat16,
)

CPU = torch.device("cpu")
BIG = 800_000_000
NANO = 3_363_808


@pytest.mark.parametrize(
    ("asked", "taken"), [("bfloat16", torch.bfloat16), ("float32", torch.float32)]
)
@pytest.mark.parametrize("num_parameters", [NANO, BIG])
def test_dtype_that_is_asked_for(
    asked: Dtype, taken: torch.dtype, num_parameters: int
) -> None:
    assert choose_dtype(asked, CPU, num_parameters) == taken


@pytest.mark.parametrize(
    ("capabilities", "num_parameters", "taken"),
    [
        pytest.param(
            {"avx512_bf16": True}, BIG, torch.bfloat16, id="big model, fast bfloat16"
        ),
        pytest.param(
            {"avx512_bf16": False, "avx512_f": True},
            BIG,
            torch.float32,
            id="big model, slow bfloat16",
        ),
        pytest.param({"avx512_bf16": True}, NANO, torch.float32, id="small model"),
    ],
)
def test_auto_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch,
    capabilities: dict[str, bool],
    num_parameters: int,
    taken: torch.dtype,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert choose_dtype("auto", CPU, num_parameters) == taken


@pytest.mark.parametrize(
    ("supported", "taken"), [(True, torch.bfloat16), (False, torch.float32)]
)
def test_auto_on_cuda(
    monkeypatch: pytest.MonkeyPatch, supported: bool, taken: torch.dtype
) -> None:
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda *, including_emulation: supported
    )
    assert choose_dtype("auto", torch.device("cuda"), NANO) == taken


@pytest.mark.parametrize("name", ["avx512_bf16", "amx_bf16", "bf16"])
def test_fast_bfloat16(name: str) -> None:
    assert has_fast_bfloat16({"architecture": "any", name: True})
    assert not has_fast_bfloat16({"architecture": "any", name: False})


def test_cpu_is_there() -> None:
    assert choose_device("cpu") == CPU


def test_cuda_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelLoadError, match="device cuda is not available"):
        choose_device("cuda")


@pytest.mark.parametrize(
    ("asked", "num_parameters", "expected"),
    [
        pytest.param(3, NANO, 3, id="as asked"),
        pytest.param(None, NANO, 1, id="small"),
    ],
)
def test_threads(asked: int | None, num_parameters: int, expected: int) -> None:
    assert choose_num_threads(asked, num_parameters) == expected


def test_a_small_model_leaves_a_later_large_one_its_threads() -> None:
    def load_small_then_large() -> tuple[int, int]:
        before = choose_num_threads(None, BIG)
        torch.set_num_threads(choose_num_threads(None, NANO))
        return before, choose_num_threads(None, BIG)

    with ThreadPoolExecutor(1) as thread:
        before, after = thread.submit(load_small_then_large).result()
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(choose_num_threads, None, BIG).result() == after == before
