"""The labels of people that look wrong, with what the run suggests instead."""

from __future__ import annotations

import numpy as np
import pandas as pd

from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE
from surelabel.selection.reasons import Reason
from surelabel.workflows.label import annotations_of

COLUMNS = ("id", "path", "label", "suggested", "probability", "label_probability")


def label_errors_of(folder: RunFolder) -> pd.DataFrame:
    """One row per suspicious label that nobody has reviewed yet, the least credible first.

    ``probability`` is that of the class ``suggested``, ``label_probability`` that of the label, by
    nets that did not train on the label. Only held-out labels are checked: with the tail linear
    these are all of them.
    """
    table = annotations_of(folder)
    found = table[table["reason"] == str(Reason.SUSPICIOUS)]
    own = _label_probabilities(folder).reindex(found["id"]).to_numpy(dtype=np.float64)
    probability = found["probability"].to_numpy(dtype=np.float64)
    rows = pd.DataFrame(
        {
            "id": found["id"].to_numpy(),
            "path": found["path"].to_numpy(),
            "label": found["label"].to_numpy(),
            "suggested": found["guess"].to_numpy(),
            "probability": probability,
            "label_probability": own,
        }
    )
    order = np.lexsort((-probability, own / probability))
    return rows.iloc[order].reset_index(drop=True)


def _label_probabilities(folder: RunFolder) -> pd.Series:
    """By id; empty for runs of a version that did not keep them."""
    last = folder.last_round()
    held_out = last.read_table(HELD_OUT_TABLE) if last else pd.DataFrame()
    if "label_probability" not in held_out:
        return pd.Series(dtype=float)
    return held_out.set_index("id")["label_probability"]
