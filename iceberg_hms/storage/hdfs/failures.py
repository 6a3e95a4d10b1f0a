"""hdfs-native's errors, as ours. The only place for that."""

from __future__ import annotations

import re
from typing import Final

from iceberg_hms.errors import (
    CorruptFile,
    FileAlreadyExists,
    IcebergHmsError,
    InvalidInput,
    MissingFile,
    ResourceExhausted,
    StorageError,
    StorageRefused,
)

#: How hdfs-native spells what the name node answered: the Java exception and its message, with a stack trace.
_ANSWER: Final = re.compile(r'(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)', re.DOTALL)
#: The end of a message's first line, as it is in an error's text and inside a quoted one.
_LINE_END: Final = re.compile(r"\n|\\n")

# Each with the beginning of its message: what follows are names, which may hold any words.
_NOT_A_FOLDER: Final = re.compile(r"/.*\(is not a directory\)")
#: What a rename answers whose new name is a folder.
_TAKEN_BY_FOLDER: Final = re.compile(r"IOException: Source .* must both be directories")
_NOT_A_FILE: Final = "Path is not a file: "
_NO_DESCRIPTORS: Final = re.compile(r".*\(os error (?:23|24)\)\W*", re.DOTALL)
#: Java exceptions, by their last names, for locations that HDFS cannot have.
_INVALID: Final = frozenset(
    {"InvalidPathException", "PathComponentTooLongException", "MaxDirectoryItemsExceededException"}
)
#: Java exceptions and hdfs-native's errors after which another attempt fails as well, and what helps.
_REFUSED: Final = {
    "AccessControlException": "allow the user of HDFS (`hdfs.user`, or the Kerberos principal) to read and write there",
    "AuthorizationException": "let the name node accept this user (hadoop.security.authorization, proxy users)",
    "PathIsNotEmptyDirectoryException": "name a file",
    "NSQuotaExceededException": "raise the folder's quota of names (hdfs dfsadmin -setQuota), or delete files there",
    "DSQuotaExceededException": "raise the folder's quota of space (hdfs dfsadmin -setSpaceQuota), or delete files",
    "InvalidArgument": "name the cluster: `hdfs.host`, or `hdfs.config-dir` with its name services",
    "UrlParseError": "correct the location, or `hdfs.host`",
    "XmlParseError": "correct core-site.xml and hdfs-site.xml in `hdfs.config-dir`",
    "SaslException": "renew the Kerberos ticket of this process (kinit)",
    "SASLError": "renew the Kerberos ticket of this process (kinit)",
    "GSSAPIError": "renew the Kerberos ticket of this process (kinit)",
    "NoSASLMechanism": "set hadoop.security.authentication in core-site.xml as the cluster has it",
}
_LATER: Final = "see whether the name node and the data nodes run and can be reached, then try again"


def as_error(location: str, error: BaseException) -> IcebergHmsError:
    """The error for the file of a location. CorruptFile says that it is a folder."""
    # Its other errors are spelled `Kind("message")`.
    text = str(error)
    first = _LINE_END.split(text, maxsplit=1)[0]
    if isinstance(error, TimeoutError):
        return StorageError(f"{location}: HDFS did not answer in time", next_step=_LATER)
    if isinstance(error, FileNotFoundError):
        return folder_named(location) if text.startswith(_NOT_A_FILE) else MissingFile(location)
    if isinstance(error, FileExistsError):
        return FileAlreadyExists(location)
    answer = _ANSWER.match(text)
    if answer is None:
        if _NO_DESCRIPTORS.fullmatch(text):
            return ResourceExhausted(f"{location}: {first}")
        kind, message = text.partition("(")[0], first
    else:
        kind, said = re.split(r"[.$]", answer[1])[-1], _LINE_END.split(answer[2], maxsplit=1)[0]
        message = f"{kind}: {said}"
        if _NOT_A_FOLDER.fullmatch(said):
            return MissingFile(location)
        if _TAKEN_BY_FOLDER.fullmatch(message):
            return FileAlreadyExists(location)
    if kind in _INVALID:
        return InvalidInput(f"{location}: HDFS has no such names: {message}", next_step="choose another name")
    if kind in _REFUSED:
        return StorageRefused(f"{location}: {message}", next_step=_REFUSED[kind])
    return StorageError(f"{location}: {message}", next_step=_LATER)


def folder_named(location: str) -> CorruptFile:
    """The error for a folder that was named as a file."""
    return CorruptFile(location, "it is a folder", next_step="name a file")
