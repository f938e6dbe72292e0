"""Writes the test files of this folder: make.py FOLDER. README.md says which version of scikit-learn wrote them."""
import sys

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file

out = sys.argv[1] + "/"
# Row i has the features i and 9 with the values 0.5 (i + 1) and -i; row 3 has no feature, and row 4 no label.
x = np.zeros((6, 10))
labels = [[0, 2], [1], [3, 4, 0], [2], [], [4]]
y = np.zeros((6, 5), int)
for i in range(6):
    if i != 3:
        x[i, i] = 0.5 * (i + 1)
        x[i, 9] = -i
    y[i, labels[i]] = 1
dump_svmlight_file(csr_matrix(x), csr_matrix(y), out + "rows", multilabel=True, zero_based=True)
rows = open(out + "rows").read()
with open(out + "several.txt", "w") as f:
    f.write("6 10 5\n" + rows)
