"""Certificates for tests, made by the `openssl` command."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True)
class Authority:
    """A certificate authority in a folder of its own."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"

    @classmethod
    def make(cls, folder: Path) -> Authority:
        folder.mkdir()
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *(
                "-subj",
                f"/CN=authority {folder.name}",
                "-keyout",
                str(folder / "ca.key"),
                "-out",
                str(folder / "ca.pem"),
            ),
        )
        return cls(folder)

    def issue(self, name: str) -> Path:
        """A file with a certificate for localhost and its key, for a server or a client."""
        key, unsigned, signed = (self.folder / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        extensions = self.folder / "extensions"
        extensions.write_text(_NAMES)
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(unsigned)),
        )
        _openssl(
            *("x509", "-req", "-in", str(unsigned), "-days", "2", "-CA", str(self.certificate)),
            *(
                "-CAkey",
                str(self.folder / "ca.key"),
                "-CAcreateserial",
                "-extfile",
                str(extensions),
                "-out",
                str(signed),
            ),
        )
        both = self.folder / f"{name}.pem"
        both.write_text(signed.read_text() + key.read_text())
        return both


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
