"""Where decoded images are kept when the user names no folder."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(named: str) -> Path:
    """The folder that the option ``cache`` names; the default where it is empty."""
    return Path(named).expanduser() if named else default_cache()


def default_cache() -> Path:
    """The folder in ``SURELABEL_CACHE``, else the user's cache folder of this platform."""
    named = os.environ.get("SURELABEL_CACHE", "").strip()
    if named:
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("surelabel", appauthor=False)
