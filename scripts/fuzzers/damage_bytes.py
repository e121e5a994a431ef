"""Damages a run of bytes; knows nothing of what it means."""

from random import Random

# What lengths, counts and offsets are set to.
EXTREMES = (
    0, 1, 7, 8, 16, 31, 32, 63, 64, 127, 128, 255, 256, 1 << 15, (1 << 16) - 1, 1 << 16, 1 << 20, 100_000_000,
    126_000_000, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 62) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
)  # fmt: skip
_LONGEST_RUN = 4096


def damage_bytes(rng: Random, data: bytes, *, upto: int | None = None) -> bytes:
    """Change bytes here and there, the first `upto` of them mostly."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        end = len(damaged)
        if upto is not None and rng.random() < 0.9:
            end = min(end, upto)
        if not end:
            damaged += rng.randbytes(8)
            continue
        rng.choice(_WAYS)(rng, damaged, rng.randrange(end))
    return bytes(damaged)


def _run(rng: Random, damaged: bytearray) -> int:
    return rng.choice((1, 2, 4, 8, 16, rng.randint(1, _LONGEST_RUN), len(damaged)))


def _flip(rng: Random, damaged: bytearray, at: int) -> None:
    damaged[at] ^= 1 << rng.randrange(8)


def _overwrite(rng: Random, damaged: bytearray, at: int) -> None:
    length = min(_run(rng, damaged), len(damaged) - at, _LONGEST_RUN)
    fill = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"["))
    damaged[at : at + length] = (
        rng.randbytes(length) if rng.random() < 0.5 else fill * length
    )


def _set_number(rng: Random, damaged: bytearray, at: int) -> None:
    width = rng.choice((1, 2, 4, 8))
    number = rng.choice(EXTREMES) + rng.choice((-1, 0, 0, 0, 1))
    length = min(width, len(damaged) - at)
    damaged[at : at + length] = (number % (1 << 64)).to_bytes(8, "little")[:length]


def _add_to_number(rng: Random, damaged: bytearray, at: int) -> None:
    damaged[at] = (damaged[at] + rng.choice((-8, -4, -1, 1, 4, 8))) % 256


def _splice(rng: Random, damaged: bytearray, at: int) -> None:
    start = rng.randrange(len(damaged))
    piece = damaged[start : start + _run(rng, damaged)]
    end = at + (len(piece) if rng.random() < 0.5 else 0)
    damaged[at:end] = piece


def _cut_out(rng: Random, damaged: bytearray, at: int) -> None:
    del damaged[at : at + _run(rng, damaged)]


def _cut_off(_: Random, damaged: bytearray, at: int) -> None:
    del damaged[at:]


def _append(rng: Random, damaged: bytearray, _: int) -> None:
    damaged += bytes(rng.choice((1, 8, 16, 4096)))


_WAYS = (
    _flip,
    _flip,
    _overwrite,
    _set_number,
    _set_number,
    _add_to_number,
    _splice,
    _cut_out,
    _cut_off,
    _append,
)
