"""`python -m iceberg_hms`: the same as `iceberg-hms`, where the environment's programs are not on PATH."""

from iceberg_hms.cli.main import run

if __name__ == "__main__":
    run()
