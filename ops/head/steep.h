// Adds the part of an angular margin's gradients that is left out of the sums over tiles. A margin multiplies the
// gradient of the target by its slope, which is large if x and w are almost parallel. The normalisation then removes
// the component along the direction and keeps only the small component across it. If the sums contained the large
// product, its rounding error would exceed all other errors after this cancellation. So the sums use the gradient with
// slope 1. The rest, g · (slope - 1), is added here in f64, with the parallel component already removed.
// It is added to dW after all rows of a tile, and to dX after all tiles of a class block, so that no bit depends on the
// sizes of tiles. Each row has one target, so its part of dX is kept in one slot per row until then.
#pragma once

#include "ops/head/work.h"

namespace xrun::ops {

// Computes these parts for the targets inside an open tile. Writes the parts of dX to the slots of the pass if
// `for_dx`, and adds the parts of dW to `dw` [classes, dim_padded] unless it is null. REQUIRES: all rows have been
// summed, and no weight updated yet.
void take_steep(const HeadWork& pass, const ClassTile& tile, bool for_dx, float* dw);

// Adds the parts of dX of the rows whose target is in `classes`, a whole block, to `dx` [rows_padded, dim_padded].
void add_steep(const HeadWork& pass, TileClasses classes, float* dx);

}  // namespace xrun::ops
