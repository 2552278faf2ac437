"""torchvision and timm for comparison, where they can be imported at all."""

from __future__ import annotations

from types import ModuleType

import pytest

from public_packages import import_public


def public_package(name: str) -> ModuleType:
    """The package, or a skip with the reason."""
    try:
        package: ModuleType = import_public(name)
    except ImportError as error:
        pytest.skip(f"{name} is not installed: {error}")
    except RuntimeError as error:
        pytest.skip(f"{name} cannot be imported: {error}")
    return package
