"""The paper's MNIST study."""
