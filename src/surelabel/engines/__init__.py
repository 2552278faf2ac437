"""Where the work runs. For now: in this process."""

from surelabel.engines.adapted import AdaptedLearner
from surelabel.engines.features import Features
from surelabel.engines.folds import fold_of
from surelabel.engines.images import Images
from surelabel.engines.local import LocalLearner
from surelabel.engines.machine import prepare
from surelabel.engines.weights import load_net

__all__ = [
    "AdaptedLearner",
    "Features",
    "Images",
    "LocalLearner",
    "fold_of",
    "load_net",
    "prepare",
]
