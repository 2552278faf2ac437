"""Networks: Concrete Dropout, DenseNet, the compact net, pre-trained backbones, Bayesian heads."""
