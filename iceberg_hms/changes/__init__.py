"""Assumptions and pending changes: the REST protocol's requirements and updates, and the operations made of them."""
