"""One commit, step by step: stage, write, lock, swap, status, clean-up. It never imports scheduling/."""
