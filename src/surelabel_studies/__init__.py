"""The paper's experiments, its datasets and the synthetic use-by dates: a user of surelabel."""
