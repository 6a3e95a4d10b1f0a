"""What became of a commit: what proves that it landed, or that it did not and never will."""
