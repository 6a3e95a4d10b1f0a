"""Which files may be deleted, and deleting them."""
