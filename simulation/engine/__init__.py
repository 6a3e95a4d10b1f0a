"""Time, threads and random numbers that one seed decides."""
