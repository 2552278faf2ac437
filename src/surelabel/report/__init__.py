"""What a run did, on one page that opens anywhere; and runs side by side."""
