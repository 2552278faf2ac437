"""The paper's study of adaptation."""
