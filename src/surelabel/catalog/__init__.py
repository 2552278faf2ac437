"""Images and labels in, items with stable ids, splits and decoded pixels out."""

from surelabel.catalog.build import build_catalog, catalog_like, typical_side, unlabelled_catalog
from surelabel.catalog.cache import cache_folder, default_cache
from surelabel.catalog.certify import certify_population
from surelabel.catalog.draw import draw, write_draw
from surelabel.catalog.drawn import drawn_from, note_draw
from surelabel.catalog.duplicates import contradictions
from surelabel.catalog.extend import Added, extend_catalog
from surelabel.catalog.features import FeatureStore
from surelabel.catalog.items import Catalog, Skipped
from surelabel.catalog.labelling import Labels
from surelabel.catalog.near_copies import near_copies
from surelabel.catalog.pixels import Pixels, PixelStore
from surelabel.catalog.relabel import given_labels
from surelabel.catalog.restore import moved_to, open_pixels, restore_pixels
from surelabel.catalog.sources import Images

__all__ = [
    "Added",
    "Catalog",
    "FeatureStore",
    "Images",
    "Labels",
    "PixelStore",
    "Pixels",
    "Skipped",
    "build_catalog",
    "cache_folder",
    "catalog_like",
    "certify_population",
    "contradictions",
    "default_cache",
    "draw",
    "drawn_from",
    "extend_catalog",
    "given_labels",
    "moved_to",
    "near_copies",
    "note_draw",
    "open_pixels",
    "restore_pixels",
    "typical_side",
    "unlabelled_catalog",
    "write_draw",
]
