// Decoding of encoded pictures, in part if the next stage of the binding needs only a part of the picture.
#pragma once

#include "graph/base/result.h"
#include "runtime/data/augment/augment.h"

namespace xrun::runtime {

// The stages `decode` and `resize`, with the signature of AugmentStep::run.
Status run_decode(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);
Status run_resize(const AugmentStep& step, AugmentScratch& scratch, const DrawKey& key);

// Returns the size of the working picture. If it is still encoded, its header is read. Errors: XG0412.
Result<PictureSize> picture_size(AugmentScratch& scratch);

// Makes the rectangle `box` of the working picture, resized to [height, width], the working picture. If the picture is
// still encoded, other pixels are not decoded as far as the format permits that. The result does not depend on whether
// the picture was encoded, unless the stage `decode` permits an approximation. Errors: XG0412. REQUIRES: picture_size
// was called; `box` has whole pixels within the picture.
Status take_part(AugmentScratch& scratch, const PictureBox& box, int64_t height, int64_t width,
                 const ResizeMethod& method = {});

// Decodes the working picture if it is still encoded. Errors: XG0412.
Status decode_whole(AugmentScratch& scratch);

// Returns the size of a picture of [height, width] after the stage, which is `decode`, `resize` or a crop.
std::pair<int64_t, int64_t> size_after(const AugmentStep& step, int64_t height, int64_t width);

}  // namespace xrun::runtime
