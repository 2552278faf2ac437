"""surelabel as a scikit-learn estimator; ``docs/scikit-learn.md`` shows its use."""

from __future__ import annotations

from surelabel.integrations.estimator import SelfTrainingImageClassifier

__all__ = ["SelfTrainingImageClassifier"]
