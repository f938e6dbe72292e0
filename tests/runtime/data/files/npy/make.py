"""Writes the test files of this folder: make.py FOLDER. README.md says which versions of NumPy wrote them."""
import sys

import numpy as np

out = sys.argv[1] + "/"
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

# Element (i, j) is 10 i + j: exact in every type but the 8-bit floats.
x = np.arange(6)[:, None] * 10 + np.arange(4)[None, :]
types = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
little = {t: x.astype("<" + t) for t in types} | {"b1": x % 2 == 1}
big = {t: x.astype(">" + t) for t in types}
np.savez(out + "types.npz", **little)
np.savez_compressed(out + "types_packed.npz", **little)
np.savez(out + "types_big.npz", **big)

np.save(out + "rows.npy", x.astype("<f4"))
np.save(out + "rows_fortran.npy", np.asfortranarray(x.astype("<f4")))
for version in [(2, 0), (3, 0)]:
    with open(out + f"rows_v{version[0]}.npy", "wb") as f:
        np.lib.format.write_array(f, x.astype("<f4"), version=version)

# Picture k: element (y, x, channel) is 60 k + 12 y + 3 x + channel.
pictures = np.arange(3 * 5 * 4 * 3).reshape(3, 5, 4, 3).astype("u1")
np.save(out + "pictures.npy", pictures)
np.save(out + "pictures_first.npy", np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)))
np.save(out + "pictures_fortran.npy", np.asfortranarray(pictures.astype(">i2")))
np.save(out + "grey.npy", pictures[..., 0])

np.save(out + "labels.npy", np.array([2, 0, 1, 1, 0, 2]))
np.save(out + "labels_column.npy", np.array([[2], [0], [1], [1], [0], [2]], "u1"))
np.save(out + "labels_float.npy", np.array([2, 0, np.nan, 1, 0, 2.0]))
np.save(out + "names.npy", np.array(["pear", "apple", "Äpfel", "𝒢uava", "apple", ""]))
np.save(out + "names_bytes.npy", np.array([b"pear", b"apple", b"fig", b"fig", b"apple", b"pear"]))
np.save(out + "one_hot.npy", np.eye(3)[[2, 0, 1, 1, 0, 2]])
np.savez(out + "set.npz", x=x.astype("<f4"), y=np.array([2, 0, 1, 1, 0, 2]), z=np.zeros(1))

np.save(out + "objects.npy", np.array([{"a": 1}, [2, 3]], object), allow_pickle=True)
np.save(out + "fields.npy", np.zeros(2, [("a", "<f4"), ("b", "<i4")]))
np.save(out + "fields_unicode.npy", np.zeros(2, [("größe", "<f4")]))
np.save(out + "times.npy", np.zeros(2, "datetime64[s]"))
np.save(out + "complex.npy", np.zeros((2, 2), "<c8"))
np.save(out + "long_double.npy", np.zeros((2, 2), np.longdouble))
np.save(out + "scalar.npy", np.float32(1))
np.save(out + "six.npy", np.zeros((2, 1, 1, 1, 1, 1)))
if ml_dtypes is not None:
    np.save(out + "bf16.npy", x.astype(ml_dtypes.bfloat16))
    small = (x % 10 + 1) * 0.25
    np.save(out + "f8e4m3.npy", small.astype(ml_dtypes.float8_e4m3fn))
    np.save(out + "f8e5m2.npy", small.astype(ml_dtypes.float8_e5m2))
