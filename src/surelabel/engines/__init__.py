"""Where the work runs. For now: in this process."""

from surelabel.engines.features import Features
from surelabel.engines.images import Images
from surelabel.engines.local import LocalLearner
from surelabel.engines.machine import prepare
from surelabel.engines.weights import load_net

__all__ = ["Features", "Images", "LocalLearner", "load_net", "prepare"]
