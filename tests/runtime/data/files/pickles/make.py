"""Writes the pickles of this folder but torch_*: python make.py NAME PROTOCOL...

Each file NAME_pPROTOCOL.pkl holds the same value.
"""
import pickle
import sys

shared = [1]
value = [
    None, True, False, 0, 255, 256, 65536, -1, -2**40, 2**63 - 1, 2**64, 0.1, float("inf"),
    b"", b"\x00\xff'\"\\\n\x41", u"", u"h\xe9\u4e2d\\u0041\n", (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4),
    [], [1], [1, 2], {}, {u"a": 1, }, {u"k": [2]}, set([7]), frozenset([8]), shared, shared,
]

for protocol in [int(one) for one in sys.argv[2:]]:
    with open("%s_p%d.pkl" % (sys.argv[1], protocol), "wb") as file:
        pickle.dump(value, file, protocol)
