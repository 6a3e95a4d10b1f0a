"""Operations on snapshots that are there, and on branches and tags."""
