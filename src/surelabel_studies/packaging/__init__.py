"""The paper's study of food packaging, on synthetic photographs or your own."""
