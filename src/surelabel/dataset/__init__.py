"""Images and label tables in; items with stable ids, splits and decoded pixels out."""
