"""What every numeric test stands on: poisoned memory and one thread."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

# torch notes which functions make tensors at the first use of a device context, and for good: noted while they are
# poisoned, the real ones would from then on ignore the context and take real memory, gigabytes for a published model.
with torch.device("meta"):
    assert torch.empty(1).is_meta


def _poisoned(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def make_poisoned(*args: object, **kwargs: object) -> Tensor:
        tensor = make(*args, **kwargs)
        return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    return make_poisoned


@pytest.fixture(autouse=True)
def poisoned_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let memory that was reserved and never written show up as NaN instead of as whatever lay there."""
    monkeypatch.setattr(torch, "empty", _poisoned(torch.empty))
    monkeypatch.setattr(torch, "empty_like", _poisoned(torch.empty_like))


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Compute on one thread: models this small gain nothing from two, and lose much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
