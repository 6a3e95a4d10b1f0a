"""Where tables and files may lie: which locations a caller may name, and who else has a folder."""
