"""One group of commits to a table, from the loaded pointer to the answered callers. Read commit_group.py first."""
