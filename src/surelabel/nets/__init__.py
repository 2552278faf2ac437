"""Networks: Concrete Dropout, the growing DenseNet, the compact net, pre-trained ones."""

from surelabel.nets.bayesian import BayesianNet
from surelabel.nets.build import build_net
from surelabel.nets.compact import CompactNet
from surelabel.nets.concrete_dropout import ConcreteDropout
from surelabel.nets.densenet import GrowingDenseNet, default_nu, growth_rate, widen
from surelabel.nets.heads import start_from
from surelabel.nets.surgery import bayesianize

__all__ = [
    "BayesianNet",
    "CompactNet",
    "ConcreteDropout",
    "GrowingDenseNet",
    "bayesianize",
    "build_net",
    "default_nu",
    "growth_rate",
    "start_from",
    "widen",
]
