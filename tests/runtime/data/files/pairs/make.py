"""Writes the verification sets of this folder: python make.py PREFIX bytes|arrays PROTOCOL...

All sets hold the pictures 0.jpg to 3.jpg (8 x 8, made by `pictures`) as two pairs, of which the first is
the same. Names: PREFIX_CONTENT_pPROTOCOL.bin.
"""
import pickle
import sys


def pictures():
    import io
    from PIL import Image
    for i in range(4):
        out = io.BytesIO()
        picture = Image.new("L", (8, 8))
        picture.putdata([(x * 13 * (i + 1) + y * 29) % 256 for y in range(8) for x in range(8)])
        picture.save(out, "JPEG", quality=75, optimize=True)
        with open("%d.jpg" % i, "wb") as file:
            file.write(out.getvalue())


def write(name, value, protocol):
    with open("%s_p%d.bin" % (name, protocol), "wb") as file:
        pickle.dump(value, file, protocol)


def main(prefix, content, protocols):
    encoded = [open("%d.jpg" % i, "rb").read() for i in range(4)]
    if content == "bytes":
        for protocol in protocols:
            write(prefix + "_bytes", (encoded, [True, False]), protocol)
        return
    import numpy
    arrays = [numpy.frombuffer(one, numpy.uint8) for one in encoded]
    strided = numpy.zeros((len(encoded[2]), 2), numpy.uint8)
    strided[:, 0] = arrays[2]
    # Contiguous, with two dimensions, not contiguous, and writable; the flags as an array, as scalars, as numbers.
    mixed = [arrays[0], arrays[1].reshape(-1, 1), strided[:, 0], arrays[3].copy()]
    same = numpy.array([True, False])
    for protocol in protocols:
        write(prefix + "_arrays", (mixed, [same, list(same), same.astype(">i8")][protocol % 3]), protocol)


if __name__ == "__main__":
    if sys.argv[1] == "pictures":
        pictures()
    else:
        main(sys.argv[1], sys.argv[2], [int(one) for one in sys.argv[3:]])
