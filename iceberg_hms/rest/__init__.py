"""The Iceberg REST protocol over a catalog: routes, payloads, error mapping, auth, and a server to run it on.

    app.create_app     the ASGI application
    server.RestServer  the same on uvicorn, in a thread of its own

Nothing here knows the metastore: the catalog (`catalog.catalog.Catalog`) does all the work.
"""
