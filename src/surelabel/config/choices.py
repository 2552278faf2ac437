"""Options with a fixed set of values, and what each value means."""

from __future__ import annotations

from enum import StrEnum


class Net(StrEnum):
    """Which network is trained. Model names of timm work too, so the option takes any name."""

    AUTO = "auto"
    """By size and by a trial on the labels: compact, or pre-trained where weights are installed."""
    COMPACT = "compact"
    """A small convolutional net made for two CPU cores, with a Bayesian tail."""
    DENSENET = "densenet"
    """The growing DenseNet-BC of the paper's MNIST study."""
    EFFICIENTNET_LITE0 = "efficientnet-lite0"
    """Pre-trained and frozen; weights by ``surelabel[photos]``."""
    EFFICIENTNET_LITE2 = "efficientnet-lite2"
    """A larger one; weights by ``surelabel[photos]``."""
    INCEPTION_V3 = "inception-v3"
    """The paper's backbone, pre-trained and frozen; weights by ``surelabel[inception]``."""
    DENSENET121 = "densenet121"
    """Pre-trained and frozen; weights from a file."""
    DENSENET169 = "densenet169"
    DENSENET201 = "densenet201"


TRAINED_FROM_SCRATCH = (Net.AUTO, Net.COMPACT, Net.DENSENET)
"""All other nets come pre-trained."""


class Tail(StrEnum):
    """What is trained on the features of a pre-trained net."""

    LINEAR = "linear"
    """A Bayesian linear head on several layers, fitted exactly, cross-fitted over all labels."""
    SMALL = "small"
    """One hidden layer of 128 with Concrete Dropout."""
    WIDE = "wide"
    """The paper's head: two hidden layers of 2048 with batch norm, dropout .5 after each."""
    LAST_BLOCK = "last_block"
    """Of a DenseNet or of EfficientNet-Lite0; Concrete Dropout after every convolution."""
    DETAIL = "detail"
    """Attention over maps of earlier layers of EfficientNet-Lite, where a few pixels decide."""


class Strategy(StrEnum):
    """Which images are drawn to be labeled."""

    RANDOM = "random"
    """Uniformly. Only such labels can certify."""
    COVERAGE = "coverage"
    """Typical and diverse ones, by their features."""
    UNCERTAIN = "uncertain"
    """Ones like many others that a run is uncertain of."""


class Effort(StrEnum):
    """How much training a run may cost."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class EngineName(StrEnum):
    """Where training and scoring run."""

    LOCAL = "local"
    """In this process."""
    RAY = "ray"
    """On a Ray cluster."""


class Mode(StrEnum):
    """What happens to the pseudo-labels of earlier rounds."""

    RELABEL = "relabel"
    """Each round labels the whole pool anew."""
    KEEP = "keep"
    """The paper's way: a label once accepted stays."""


class Weighting(StrEnum):
    """How much a pseudo-label counts in training."""

    INVERSE_UNCERTAINTY = "inverse_uncertainty"
    """exp(-uncertainty * phi(round)), the paper's inverse uncertainty weighting."""
    NONE = "none"
    """Every accepted label counts 1."""


class ClassWeighting(StrEnum):
    """How much a class counts in training."""

    NONE = "none"
    BALANCED = "balanced"
    """max(N) / N_j, from the counts of human labels."""


class Dropout(StrEnum):
    """Where the dropout probabilities of the Bayesian tail come from."""

    CONCRETE = "concrete"
    """Learned, one for each layer, by Concrete Dropout."""
    FIXED = "fixed"
    """Set by ``dropout_p``."""


class Optimizer(StrEnum):
    """The optimizer."""

    SGD = "sgd"
    """With Nesterov momentum .9."""
    ADAM = "adam"


class Schedule(StrEnum):
    """How the learning rate moves over the steps."""

    ONE_CYCLE = "one_cycle"
    """Short warm-up, then a cosine down to almost nothing."""
    STEP = "step"
    """Divided by 10 at 50 % and at 75 % of the steps."""
    CONSTANT = "constant"


class Measure(StrEnum):
    """The measures of uncertainty; higher is more uncertain."""

    LEAST_CONFIDENCE = "least_confidence"
    MARGIN = "margin"
    PREDICTIVE_ENTROPY = "predictive_entropy"
    EXPECTED_ENTROPY = "expected_entropy"
    MUTUAL_INFORMATION = "mutual_information"
    ALEATORIC_VARIANCE = "aleatoric_variance"
    VARIANCE_TRACE = "variance_trace"
    TOTAL_TRACE = "total_trace"
    TOTAL_VARIANCE = "total_variance"


class Consensus(StrEnum):
    """How one label is made of several people's."""

    MAJORITY = "majority"
    """What most people said; nothing at a tie."""
    WEIGHTED = "weighted"
    """The most probable class, by the run's prediction and by how reliable each person is."""


class ModelFormat(StrEnum):
    """In which form a run's nets are written for other programs."""

    ONNX = "onnx"


class TrackerName(StrEnum):
    """Tools that keep the figures of experiments."""

    TENSORBOARD = "tensorboard"
    MLFLOW = "mlflow"
    WANDB = "wandb"
