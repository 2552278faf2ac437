"""Latent Variable Adaptive Clustering: label one dataset with a net trained on another.

Pure functions on latents: no torch, no files, no clock.
"""

from surelabel.adapt.clusters import BIG, Clusters, cluster, nearest_images
from surelabel.adapt.compare import Comparison, clopper_pearson, compare, mcnemar
from surelabel.adapt.fit import Adaptation, Facets, adapt, default_ks, softmin
from surelabel.adapt.gap import Gap, distances_apart, gap
from surelabel.adapt.joined import Joined, adapted_centroids, join, prune
from surelabel.adapt.rivals import class_means, labels_alone

__all__ = [
    "BIG",
    "Adaptation",
    "Clusters",
    "Comparison",
    "Facets",
    "Gap",
    "Joined",
    "adapt",
    "adapted_centroids",
    "class_means",
    "clopper_pearson",
    "cluster",
    "compare",
    "default_ks",
    "distances_apart",
    "gap",
    "join",
    "labels_alone",
    "mcnemar",
    "nearest_images",
    "prune",
    "softmin",
]
