"""Changes of a table: the REST protocol's requirements and updates, clients' commits, and operations such as append."""
