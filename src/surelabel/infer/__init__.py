"""From trained nets to predictions with uncertainty."""

from surelabel.infer.sampling import appearance_of, concatenate, distance_of, latents_of, predict

__all__ = ["appearance_of", "concatenate", "distance_of", "latents_of", "predict"]
