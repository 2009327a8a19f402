"""Packed strings are split as Python splits them."""

from __future__ import annotations

import random

import numpy as np

from tests.support.seeds import seed
from vertexsdk.arrays.packed_strings import hash_strings, pack_strings, unpack_strings
from vertexsdk.arrays.split_words import split_words


def test_words_are_those_of_str_split() -> None:
    spaces = [chr(c) for c in range(0x3100) if chr(c).isspace()]
    others = [chr(ord(c) + d) for c in spaces for d in (-1, 1, 64)]
    others += ["a", "\0", "!", "~", "\x7f", "\ud800", "\U0001f600"]
    others += ["abcdefghijklmnopqrstuvwxyz"[: n + 1] for n in range(20)]  # up to 8 bytes at a time
    chance = random.Random(seed())
    lines = [
        "".join(chance.choice(chance.choice([spaces, others])) for _ in range(n % 12))
        for n in range(2000)
    ]
    words, counts = split_words(*pack_strings(lines))
    assert unpack_strings(*words) == [word for line in lines for word in line.split()]
    assert counts.tolist() == [len(line.split()) for line in lines]
    assert np.array_equal(words.hashes, hash_strings(*words))
