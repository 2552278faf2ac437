"""From trained nets to predictions with uncertainty."""

from surelabel.infer.sampling import concatenate, predict

__all__ = ["concatenate", "predict"]
