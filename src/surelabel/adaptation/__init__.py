"""Label a dataset with the help of another one: the ways, and the choice among them."""
