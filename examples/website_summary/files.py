"""Files that exist completely or not at all, whatever is killed meanwhile."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that readers never see a part of it. Replaces a file of that name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as partial:
        partial.write(data)
        partial.flush()
        os.fsync(partial.fileno())
    os.replace(partial.name, path)
