"""Operations that add and remove files."""
