"""From trained nets to predictions with uncertainty."""

from surelabel.infer.sampling import concatenate, latents_of, predict

__all__ = ["concatenate", "latents_of", "predict"]
