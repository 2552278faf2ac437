"""From trained nets to predictions with uncertainty, and how good an uncertainty is."""
