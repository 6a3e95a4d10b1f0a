"""Operations that change schema, partition spec and sort order."""
