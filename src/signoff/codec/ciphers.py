"""Encryption of stored texts: AES-256-GCM, with key rotation.

The nonce is an HMAC of the text and its storage location, under a separate key (a synthetic IV). So the same text in
the same location always has the same ciphertext, so the store recognizes a repeated write. In different
locations equal texts have different ciphertexts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from signoff.errors import InvalidValue

MARK: Final = "signoff:1:"
"""The prefix of each ciphertext. The name of the key and the base64 data follow."""

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12

_NAME: Final = re.compile("[A-Za-z0-9_-]{1,32}")


def is_encrypted(text: str) -> bool:
    """Whether JSON text is a ciphertext as stores keep it."""
    return text.startswith(f'"{MARK}')


class CannotDecrypt(ValueError):
    """A ciphertext that none of the keys decrypts."""


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """An encryption key, with the name that ciphertexts refer to.

    Attributes:
        name: Up to 32 letters, digits, ``-`` and ``_``.
        secret: 32 random bytes.
    """

    name: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Raises InvalidValue."""
        if _NAME.fullmatch(self.name) is None:
            raise InvalidValue(
                "encryption key", "expected NAME:SECRET, with a name of up to 32 letters, digits, - and _"
            )
        if len(self.secret) != KEY_BYTES:
            raise InvalidValue(
                "encryption key", f"{self.name!r} has {len(self.secret)} bytes, not {KEY_BYTES}"
            )

    @classmethod
    def new(cls, name: str) -> EncryptionKey:
        """Generate a key. Raises InvalidValue if the name is not valid."""
        return cls(name, secrets.token_bytes(KEY_BYTES))

    @property
    def text(self) -> str:
        """The key as ``Ciphers.parse`` reads it."""
        return f"{self.name}:{base64.urlsafe_b64encode(self.secret).decode().rstrip('=')}"


class Ciphers:
    """Encrypts with the first key, and decrypts with any of the keys.

    Args:
        keys: The keys. The first one encrypts.

    Raises:
        InvalidValue: There is no key, two keys share a name, or the encryption library is not installed.

    Example::

        ciphers = Ciphers.parse(os.environ["SIGNOFF_ENCRYPTION_KEYS"])
    """

    def __init__(self, keys: Sequence[EncryptionKey]) -> None:
        if not keys:
            raise InvalidValue("encryption keys", "none given; `signoff keys create --encryption` makes one")
        names = [key.name for key in keys]
        if len(set(names)) != len(names):
            raise InvalidValue("encryption keys", f"two keys share a name: {', '.join(names)}")
        self._name = names[0]
        self._ciphers = {key.name: _Cipher(key.secret) for key in keys}

    @classmethod
    def parse(cls, text: str) -> Ciphers:
        """Parse keys, ``NAME:SECRET`` separated by white space or commas.

        Raises:
            InvalidValue: A key is malformed. The message does not quote it.
        """
        return cls([_key(number, word) for number, word in enumerate(re.split(r"[\s,]+", text.strip()), 1)])

    def encrypt(self, text: str, *, bound_to: str) -> str:
        """Return a text's ciphertext.

        Args:
            text: Any text.
            bound_to: Its storage location. Decryption needs the same one.
        """
        sealed = self._ciphers[self._name].encrypt(text.encode(), bound_to.encode())
        return f"{MARK}{self._name}:{base64.urlsafe_b64encode(sealed).decode()}"

    def encrypt_bytes(self, data: bytes, *, bound_to: str) -> bytes:
        """Return the ciphertext of bytes. See ``encrypt``."""
        return f"{MARK}{self._name}:".encode() + self._ciphers[self._name].encrypt(data, bound_to.encode())

    def decrypt_bytes(self, ciphertext: bytes, *, bound_to: str) -> bytes:
        """Return the bytes of a ciphertext of ``encrypt_bytes``. Bytes without its prefix are returned unchanged.

        Raises:
            CannotDecrypt: The key is missing, or the ciphertext was changed or moved from another location.
        """
        if not ciphertext.startswith(MARK.encode()):
            return ciphertext
        name, _, sealed = ciphertext.removeprefix(MARK.encode()).partition(b":")
        data = self._cipher(name.decode(errors="replace")).decrypt(sealed, bound_to.encode())
        if data is None:
            raise _not_decrypted(name.decode(errors="replace"))
        return data

    def decrypt(self, ciphertext: str, *, bound_to: str) -> str:
        """Return the text of a ciphertext. A text without the ciphertext prefix is returned unchanged.

        Raises:
            CannotDecrypt: The key is missing, or the ciphertext was changed or moved from another location.
        """
        if not ciphertext.startswith(MARK):
            return ciphertext
        name, _, encoded = ciphertext.removeprefix(MARK).partition(":")
        cipher = self._cipher(name)
        try:
            sealed = base64.b64decode(encoded, altchars=b"-_", validate=True)
        except ValueError:
            raise _not_decrypted(name) from None
        text = cipher.decrypt(sealed, bound_to.encode())
        if text is None:
            raise _not_decrypted(name)
        return text.decode()

    def _cipher(self, name: str) -> _Cipher:
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise CannotDecrypt(f"it needs key {name[:32]!r}, which this process does not have")
        return cipher


def _not_decrypted(name: str) -> CannotDecrypt:
    return CannotDecrypt(f"key {name[:32]!r} does not decrypt it: the key or the value was changed, or moved")


class _Cipher:
    def __init__(self, secret: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            hint = "encryption needs the extra `encryption`: pip install 'signoff[encryption]'"
            raise InvalidValue("encryption keys", f"{hint} ({error})") from error
        # A full-length random key needs only the expand step of HKDF, one block for each derived key.
        self._nonces = hmac.digest(secret, b"signoff nonces\x01", hashlib.sha256)
        self._aes = AESGCM(hmac.digest(secret, b"signoff payloads\x01", hashlib.sha256))

    def encrypt(self, text: bytes, bound_to: bytes) -> bytes:
        parts = (bound_to, text)
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        nonce = hmac.digest(self._nonces, framed, hashlib.sha256)[:NONCE_BYTES]
        return nonce + self._aes.encrypt(nonce, text, bound_to)

    def decrypt(self, sealed: bytes, bound_to: bytes) -> bytes | None:
        from cryptography.exceptions import InvalidTag

        try:
            return self._aes.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound_to)
        except (InvalidTag, ValueError):
            return None


def _key(number: int, word: str) -> EncryptionKey:
    name, _, encoded = word.partition(":")
    try:
        secret = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidValue(
            "encryption keys", f"key number {number} is malformed; expected NAME:SECRET, 32 bytes in base64"
        ) from None
    return EncryptionKey(name, secret)
