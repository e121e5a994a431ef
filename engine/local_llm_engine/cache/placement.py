"""Where prefill stops and where checkpoints stand: pure functions of the prompt and of absolute positions.

A run that resumes must cut what it reads exactly as a run from the first token would, since the
length of a stretch decides how its sums are rounded. So nothing here knows where a run began.
"""

from bisect import bisect_right
from collections.abc import Sequence


def stretch_end(
    position: int, target: int, checkpoints: Sequence[int], chunk: int
) -> int:
    """Find the token count at which a prefill step that begins at `position` stops.

    It is the first of: the next checkpoint position, the next multiple of `chunk`, the target.
    `checkpoints` ascend.
    """
    end = min(target, position - position % chunk + chunk)
    following = bisect_right(checkpoints, position)
    return min(end, checkpoints[following]) if following < len(checkpoints) else end
