"""Files by location, on pyarrow's filesystems, and the manifests in them: drivers of the Files and Manifests ports."""
