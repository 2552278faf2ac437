"""The loop as the paper has it: everything that it did not have is off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from surelabel.config.choices import Measure, Mode

PAPER_LOOP: Mapping[str, Any] = {
    "mode": Mode.KEEP,
    "score": Measure.TOTAL_VARIANCE,
    "weight_measure": Measure.TOTAL_VARIANCE,
    "weight_cap": 0.0,
    "human_share": 0.0,
    "left_share": 0.0,
    "consistency": 0.0,
    "neighbor_vote": False,
    "matrix_scaling": False,
    "weight_average": 0.0,
    "pseudo_label_evidence": 1.0,
    "out_of_distribution": False,
    "earlier_nets": False,
    "warm_start": False,
    "augment": False,
}
