"""The drivers of the Files and Manifests ports: files on pyarrow's filesystems, and manifests in files."""
