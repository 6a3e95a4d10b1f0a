"""`iceberg-hms demo`: real servers, real data, five scenes of about two minutes in all.

`command` puts the scenes together, each in a module of its own; `stage` is what they share; `writer` is a Python
process that commits.
"""

from iceberg_hms.cli.demo.command import demo as demo
