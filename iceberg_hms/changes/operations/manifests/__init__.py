"""What operations read in a branch's manifests, assume of it, and write to manifests of their own."""
