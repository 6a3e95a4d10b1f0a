"""Who does what under which faults, and what is promised then."""
