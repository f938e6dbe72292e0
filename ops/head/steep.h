// The part of an angular margin's gradients that is added outside of the sums over tiles. A margin multiplies the
// target's gradient by its slope, which is large if x and w are almost parallel; but the normalisation removes the
// component along the direction, and leaves the small one across it. So the sums use the gradient with slope 1, and
// the rest, g · (slope - 1), is added here in f64 with the parallel component already removed: otherwise the rounding
// error of a large product that cancels later would exceed all other errors.
// It is added to dW after all rows of a tile, and to dX after all tiles of a class block, so that no bit depends on the
// sizes of tiles. Each row has one target, so its part of dX is kept in one slot per row until then.
#pragma once

#include "ops/head/work.h"

namespace xrun::ops {

// For the targets inside an open tile: writes their parts of dX to the slots of the pass (`for_dx`), and adds those of
// dW to `dw` [classes, dim_padded] unless it is null. REQUIRES: all rows have been summed, and no weight updated yet.
void take_steep(const HeadWork& pass, const ClassTile& tile, bool for_dx, float* dw);

// Adds the parts of the rows whose target is among `classes`, a whole block, to `dx` [rows_padded, dim_padded].
void add_steep(const HeadWork& pass, TileClasses classes, float* dx);

}  // namespace xrun::ops
