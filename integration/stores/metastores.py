"""The embedded metastore for tables in a bucket.

A production metastore has hadoop-aws, and makes its folders in the store. The embedded one has no such jar. It makes
them below a local folder instead, through Hadoop's view file system, and never touches the store: what lies in the
bucket is the writers' alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_VIEW: Final = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
_SCHEMES: Final = ("s3", "s3a", "s3n")


def conf_for_bucket(bucket: str, folder: Path) -> dict[str, str]:
    """Settings for `LocalMetastore(conf=...)`. folder: for the folders of this bucket's databases and tables; made
    here."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        **{f"fs.{scheme}.impl": _VIEW for scheme in _SCHEMES},
        f"fs.viewfs.mounttable.{bucket}.linkMergeSlash": folder.as_uri(),
    }
