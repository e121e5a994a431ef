"""At which moments of a day a template is rendered, and how often a line changes that differs between them; pure."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

SECONDS: Final = "seconds"
HALF_MINUTES: Final = "half minutes"
MINUTES: Final = "minutes"
HALF_HOURS: Final = "half hours"

_NOON = timedelta(hours=12)
SECONDS_PER_DAY: Final = 86_400
MINUTES_PER_DAY: Final = 1_440
HOURS_PER_DAY: Final = 24

# Each is a series of moments after midnight; the half hours go on to the next day's first moment.
SCENES_OF_A_DAY: Final[Mapping[str, Sequence[timedelta]]] = {
    SECONDS: (_NOON, _NOON + timedelta(seconds=1, microseconds=1)),
    HALF_MINUTES: (_NOON, _NOON + timedelta(seconds=30)),
    MINUTES: [_NOON + timedelta(minutes=minute) for minute in range(60)],
    HALF_HOURS: [timedelta(minutes=30 * index) for index in range(49)],
}


def changes_per_day(counts: Mapping[str, int]) -> int:
    """Tell how often a line changes in a day that differed so often from one moment of a series to the next.

    One change in all half hours is the date's.
    """
    if counts[SECONDS]:
        return SECONDS_PER_DAY
    if counts[HALF_MINUTES] or counts[MINUTES] >= 30:
        return MINUTES_PER_DAY
    if counts[HALF_HOURS] > 1:
        return counts[HALF_HOURS]
    return counts[MINUTES] * HOURS_PER_DAY if counts[MINUTES] > 1 else 1
