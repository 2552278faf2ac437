"""One training run: losses, augmentation, batches, schedule."""

from surelabel.learn.checkpoint import load
from surelabel.learn.schedule import peak_rate
from surelabel.learn.trainer import Checkpoints, FitReport, Trainer, TrainingSet

__all__ = ["Checkpoints", "FitReport", "Trainer", "TrainingSet", "load", "peak_rate"]
