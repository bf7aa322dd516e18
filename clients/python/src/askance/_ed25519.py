"""Verification of Ed25519 signatures as RFC 8032, section 5.1.7, says.

Verification has no secrets, so this needs no constant time. It accepts what
Go's crypto/ed25519 accepts: the equation without the cofactor, s below the
order of the group, and R as the very bytes of the point.
"""

from __future__ import annotations

import hashlib

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)

# A point in extended coordinates: x = X/Z, y = Y/Z, x*y = T/Z.
_Point = tuple[int, int, int, int]


def _add(a: _Point, b: _Point) -> _Point:
    e = (a[1] - a[0]) * (b[1] - b[0]) % _P
    f = (a[1] + a[0]) * (b[1] + b[0]) % _P
    g = 2 * a[3] * b[3] * _D % _P
    h = 2 * a[2] * b[2] % _P
    i, j, k, m = f - e, h - g, h + g, f + e
    return i * j % _P, k * m % _P, j * k % _P, i * m % _P


def _multiply(scalar: int, point: _Point) -> _Point:
    out: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            out = _add(out, point)
        point = _add(point, point)
        scalar >>= 1
    return out


def _find_x(y: int, sign: int) -> int | None:
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P:
        return None
    return _P - x if x & 1 != sign and x else x


def _decode(data: bytes) -> _Point | None:
    number = int.from_bytes(data, "little")
    y = (number & ((1 << 255) - 1)) % _P
    x = _find_x(y, number >> 255)
    return None if x is None else (x, y, 1, x * y % _P)


def _encode(point: _Point) -> bytes:
    inverse = pow(point[2], _P - 2, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


_BASE_Y = 4 * pow(5, _P - 2, _P) % _P
_BASE_X = _find_x(_BASE_Y, 0) or 0
_BASE: _Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Report whether the signature of the message is by the owner of the key."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    point, s = _decode(public_key), int.from_bytes(signature[32:], "little")
    if point is None or s >= _ORDER:
        return False
    digest = hashlib.sha512(signature[:32] + public_key + message).digest()
    k = int.from_bytes(digest, "little") % _ORDER
    minus: _Point = (_P - point[0], point[1], point[2], _P - point[3])
    return _encode(_add(_multiply(s, _BASE), _multiply(k, minus))) == signature[:32]
