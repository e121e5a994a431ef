"""Where a model lies, whatever way its path is written.

Knows nothing of what is in it.
"""

from pathlib import Path

from ..errors import ModelLoadError


def located(path: Path | str) -> Path:
    """Return the one path of a model: from the root on, `~` spelled out, links to its folder followed.

    A link that is a file keeps its name and its place: what is kept beside a model belongs there.

    Raises:
        ModelLoadError: the path cannot be followed.
    """
    try:
        whole = Path(path).expanduser()
        if whole.is_dir():
            return whole.resolve(strict=True)
        return whole.parent.resolve() / whole.name
    except (OSError, RuntimeError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        raise ModelLoadError(f"{path}: cannot be followed: {reason}") from err
