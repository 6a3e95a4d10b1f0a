"""One change on its way: pending, checked, staged on a base, and written."""
