"""Raw deflate, as Avro's blocks have it: by isal where it is installed, which takes half of zlib's time."""

from __future__ import annotations

import zlib
from typing import Any, Final

#: What has `decompressobj`.
inflater: Any = zlib
_errors: list[Any] = [zlib.error]
try:
    from isal import igzip_lib, isal_zlib
except ImportError:
    pass
else:
    inflater = isal_zlib
    _errors.append(igzip_lib.IsalError)

#: What a decompressor raises for a damaged stream.
ERRORS: Final = tuple(_errors)


def decompressor() -> Any:
    """As `zlib.decompressobj`, for one stream without zlib's header and checksum."""
    return inflater.decompressobj(-zlib.MAX_WBITS)
