"""What must hold after every step, and who checks it."""
