"""Strings are packed as each would be encoded by itself."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.support.seeds import seed
from vertexsdk.arrays.packed_strings import pack_strings, unpack_strings


@pytest.mark.parametrize("letters", ["a\0", "aä", "a\ud83d\ude00", "ä€\U0001f600\x80"])
def test_strings_are_packed_one_after_another(letters: str) -> None:
    chance = random.Random(seed())
    for count in range(20):
        texts = ["".join(chance.choices(letters, k=chance.randrange(5))) for _ in range(count)]
        offsets, utf8 = pack_strings(iter(texts))
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        assert utf8.tobytes() == b"".join(encoded)
        assert np.diff(offsets).tolist() == [*map(len, encoded)]
        assert unpack_strings(offsets, utf8) == texts
