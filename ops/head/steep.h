// What an angular margin adds to the gradients of its target beside the sums over tiles. A margin multiplies the
// target's gradient by its slope, which is large where x and w are almost parallel; what is left of such a product
// behind the normalisation is the small part across. The sums take the gradient with slope 1, and the rest,
// g · (slope - 1), is added here with the part along already taken out, in f64: the rounding of a large product that
// cancels later would be larger than all other errors.
// dW takes it behind all rows of a tile and dX behind all tiles of a class block, so that no bit depends on the sizes
// of tiles. Each row has one target, so one place a row keeps its part of dX until then.
#pragma once

#include "ops/head/work.h"

namespace xrun::ops {

// Of the targets inside an open tile whose rows all have been summed: writes their parts of dX into the pass's places
// (`for_dx`), and adds those of dW to `dw` [classes, dim_padded] unless it is null. Before the update of the tile.
void take_steep(const HeadWork& pass, const ClassTile& tile, bool for_dx, float* dw);

// Adds the parts of the rows whose target is among `classes`, a whole block, to `dx` [rows_padded, dim_padded].
void add_steep(const HeadWork& pass, TileClasses classes, float* dx);

}  // namespace xrun::ops
