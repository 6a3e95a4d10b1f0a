"""The command line: `iceberg-hms`. One command a module; `main` puts them together."""
