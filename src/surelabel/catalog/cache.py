"""Where decoded images are kept when the user names no folder."""

from __future__ import annotations

import os
from pathlib import Path


def default_cache() -> Path:
    """The folder in ``SURELABEL_CACHE``, else the user's cache folder of this platform."""
    named = os.environ.get("SURELABEL_CACHE", "").strip()
    if named:
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("surelabel", appauthor=False)
