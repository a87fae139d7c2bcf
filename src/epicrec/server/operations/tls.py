"""TLS: a development certificate where none is given, and certificates reloaded when renewed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from epicrec.server.operations.file_permissions import opener
from epicrec.server.operations.logs import event

_CA_DAYS = 3650
_DAYS = 397  # the longest that browsers accept
_RENEW_DAYS = 30
_CHECK_EVERY = 10.0  # seconds between checks of a certificate's files


def development_certificate(folder: Path, names: list[str]) -> tuple[Path, Path]:
    """Certificate and key for these names, signed by the authority in `folder/ca.pem`.

    Both are made where they are missing, and the certificate again when it is about to expire or
    lacks a name. Clients trust `ca.pem`.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca_file, ca_key_file = folder / "ca.pem", folder / "ca.key"
    file, key_file = folder / "server.pem", folder / "server.key"
    if not (ca_file.exists() and ca_key_file.exists()):
        _make_authority(ca_file, ca_key_file)
        file.unlink(missing_ok=True)
    if not (file.exists() and key_file.exists() and _serves(file, names)):
        _make_certificate(ca_file, ca_key_file, file, key_file, names)
    return file, key_file


def reloading_context(config: Any, make: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """uvicorn's context, which loads a renewed certificate while it is in use."""
    context = make()
    following = _follow(context, Path(config.ssl_certfile), Path(config.ssl_keyfile))
    task = asyncio.get_running_loop().create_task(following)
    _FOLLOWED[context] = task
    return context


_FOLLOWED: WeakKeyDictionary[ssl.SSLContext, asyncio.Task[None]] = WeakKeyDictionary()


async def _follow(context: ssl.SSLContext, file: Path, key_file: Path) -> None:
    known = _written_at(file, key_file)
    while True:
        await asyncio.sleep(_CHECK_EVERY)
        if (now := _written_at(file, key_file)) != known:
            try:
                context.load_cert_chain(file, key_file)
                known = now
                event("certificate reloaded", fingerprint=fingerprint(file))
            except (OSError, ValueError) as error:  # only half is written yet; the old one stays
                event("certificate not reloaded", error=type(error).__name__)


def _written_at(*files: Path) -> list[int]:
    try:
        return [file.stat().st_mtime_ns for file in files]
    except OSError:
        return []


def fingerprint(file: Path) -> str:
    """The SHA-256 of a certificate (of a chain, the first) as clients show it: AB:CD:…"""
    digest = x509.load_pem_x509_certificate(file.read_bytes()).fingerprint(hashes.SHA256())
    return digest.hex(":").upper()


def _make_authority(file: Path, key_file: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "epicrec development CA")])
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(name, name, key, _CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(key_file, key)
    _write(file, certificate.public_bytes(serialization.Encoding.PEM))


def _make_certificate(
    ca_file: Path, ca_key_file: Path, file: Path, key_file: Path, names: list[str]
) -> None:
    authority = x509.load_pem_x509_certificate(ca_file.read_bytes())
    ca_key = serialization.load_pem_private_key(ca_key_file.read_bytes(), None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "epicrec server")])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    certificate = (
        _builder(name, authority.subject, key, _DAYS)
        .add_extension(
            x509.SubjectAlternativeName([_general(name) for name in names]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    _write_key(key_file, key)
    _write(file, certificate.public_bytes(serialization.Encoding.PEM))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
    )


def _serves(file: Path, names: list[str]) -> bool:
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    ends = certificate.not_valid_after_utc
    lasts = ends > datetime.now(UTC) + timedelta(days=_RENEW_DAYS)
    return lasts and {_general(name) for name in names} <= set(held)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_key(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    _write(
        file,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _write(file: Path, content: bytes) -> None:
    """Write a file that only its owner can read."""
    file.unlink(missing_ok=True)
    with open(file, "xb", opener=opener) as out:
        out.write(content)
