"""The Iceberg REST protocol over a catalog: routes, payloads, error mapping, auth, and a server to run it on.

    app.create_app     the ASGI application
    server.Server      the same on uvicorn, in a thread of its own

Nothing here knows the metastore: all work is done by the catalog that is handed in (`ports.CatalogPort`).
"""
