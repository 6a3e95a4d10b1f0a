"""Where the files of a tested table lie: in a local folder, or in a bucket. Nothing else of this room knows which."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError

from iceberg_hms.config import Settings
from iceberg_hms.runtime import ThreadRuntime
from iceberg_hms.storage.drivers import remote_drivers
from iceberg_hms.storage.files import RoutedFiles
from tests.random_operations.independent_reader import FileKey, Missing
from tests.random_operations.shapes import Shape

#: How many keys one request deletes.
_DELETE_MAX: Final = 1_000
_REGION: Final = "us-east-1"
_CLIENT: Final = Config(s3={"addressing_style": "path"}, connect_timeout=5, read_timeout=60)


class Place(Protocol):
    """files: with which the package reads and writes. warehouse: a location below which the table lies. spellings: what
    its locations may begin with; all name the same file. pyiceberg: its settings for reading here."""

    files: RoutedFiles
    warehouse: str
    spellings: tuple[str, ...]
    pyiceberg: Mapping[str, str]

    def file_of(self, location: str) -> tuple[Path, FileKey]:
        """A local file with what the file at a location has, and what is another for another file. Raises Missing."""
        ...

    def name_of(self, location: str) -> str:
        """What all spellings of a location have in common: one of them without its beginning."""
        ...

    def write(self, location: str, data: bytes) -> None:
        """Write a file, as an engine does."""
        ...

    def names_in(self, folder: str) -> set[str]:
        """The names of the files in a folder as it is now."""
        ...

    def look_again(self) -> None:
        """Files may be gone from now on."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


def local_path(location: str) -> Path:
    """The file of a location, in any of the spellings of a local one."""
    return Path("/" + location.removeprefix("file:").lstrip("/"))


class LocalFolder:
    """A Place: an empty folder."""

    pyiceberg: Mapping[str, str] = {}

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.files = RoutedFiles(fsync=False)
        self.warehouse = f"file:{folder}"
        self.spellings = shape.spellings

    def file_of(self, location: str) -> tuple[Path, FileKey]:
        path = local_path(location)
        if not path.exists():
            raise Missing(f"{location} does not exist")
        status = path.stat()
        return path, (str(path), status.st_size, status.st_mtime_ns)

    def name_of(self, location: str) -> str:
        return str(local_path(location)).removeprefix("/")

    def write(self, location: str, data: bytes) -> None:
        path = local_path(location)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def names_in(self, folder: str) -> set[str]:
        return {each.name for each in local_path(folder).iterdir()}

    def look_again(self) -> None:
        """Each look is at the folder itself."""

    def close(self) -> None:
        """Nothing was started."""


@dataclass(frozen=True)
class Bucket:
    """A bucket that is there. url: `http://host:port/name`. access_key, secret_key: of its account."""

    url: str
    access_key: str
    secret_key: str = field(repr=False)

    @classmethod
    def of_environment(cls, url: str) -> Bucket:
        """With the keys of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Raises KeyError if one is not set."""
        return cls(url, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])

    @property
    def name(self) -> str:
        return urlsplit(self.url).path.strip("/")

    @property
    def endpoint(self) -> str:
        return self.url.removesuffix("/").removesuffix(f"/{self.name}")

    @property
    def settings(self) -> dict[str, str]:
        """By the names that PyIceberg and the package have for them."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.region": _REGION,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
        }

    def client(self) -> Any:
        """A client of the tests' own."""
        return botocore.session.Session().create_client(
            "s3",
            region_name=_REGION,
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=_CLIENT,
        )


class BucketFolder:
    """A Place: an empty folder of a bucket, which goes with `close`. The package reads and writes by its S3 driver;
    here botocore lists, reads and writes on its own.

    folder: an empty local one, for copies of objects, each of which is read once; its name is that of the folder in the
    bucket. What is there is known by a listing no older than `look_again`, and what is not, by a new one.
    """

    def __init__(self, bucket: Bucket, folder: Path, shape: Shape) -> None:
        self._bucket, self._copies, self._prefix = bucket, folder, f"{folder.name}/"
        self._client, self._runtime = bucket.client(), ThreadRuntime()
        settings = Settings.load(bucket.settings, environ={})
        self.files = RoutedFiles(remote_drivers(settings), gather=self._runtime.gather, io_threads=settings.io_threads)
        self.pyiceberg: Mapping[str, str] = bucket.settings
        self.spellings = shape.bucket_spellings
        self.warehouse = f"{self.spellings[0]}{bucket.name}/{self._prefix}{shape.bucket_folder}"
        self._keys: dict[str, FileKey] | None = None
        self._read: dict[FileKey, Path] = {}

    def file_of(self, location: str) -> tuple[Path, FileKey]:
        key = self._key(location)
        if self._keys is None or key not in self._keys:
            self._keys = self._listed(self._prefix)
        found = self._keys.get(key)
        if found is None:
            raise Missing(f"{location} does not exist")
        if found not in self._read:
            self._read[found] = self._copied(location, key)
        return self._read[found], found

    def name_of(self, location: str) -> str:
        return location.partition("://")[2]

    def write(self, location: str, data: bytes) -> None:
        self._client.put_object(Bucket=self._bucket.name, Key=self._key(location), Body=data)

    def names_in(self, folder: str) -> set[str]:
        return {key.rpartition("/")[2] for key in self._listed(f"{self._key(folder)}/")}

    def look_again(self) -> None:
        self._keys = None

    def close(self) -> None:
        keys = [{"Key": key} for key in self._listed(self._prefix)]
        for start in range(0, len(keys), _DELETE_MAX):
            some = {"Objects": keys[start : start + _DELETE_MAX], "Quiet": True}
            self._client.delete_objects(Bucket=self._bucket.name, Delete=some)
        self._client.close()
        self._runtime.close()

    def _key(self, location: str) -> str:
        return self.name_of(location).partition("/")[2]

    def _listed(self, prefix: str) -> dict[str, FileKey]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket.name, Prefix=prefix)
        objects = [each for page in pages for each in page.get("Contents", ())]
        return {each["Key"]: (each["Key"], each["Size"], each["ETag"]) for each in objects}

    def _copied(self, location: str, key: str) -> Path:
        try:
            data = self._client.get_object(Bucket=self._bucket.name, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            raise Missing(f"{location} does not exist") from error
        path = self._copies / str(len(self._read))
        path.write_bytes(data)
        return path


def place(folder: Path, shape: Shape, store: str | None) -> LocalFolder | BucketFolder:
    """A place for a table. folder: an empty local one. store: a bucket's URL; None: the folder itself. Raises KeyError
    as `Bucket.of_environment`."""
    return LocalFolder(folder, shape) if store is None else BucketFolder(Bucket.of_environment(store), folder, shape)
