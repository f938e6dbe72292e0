// The `glyphs` reader: characters of installed fonts, which are drawn once into memory.
#pragma once

#include <memory>

#include "graph/base/stop.h"
#include "runtime/data/readers/reader.h"

namespace xrun::runtime {

// Fields `pixels` u8 [1, size, size] (ink 255), `label` (code point - first), `font` (position in the list),
// `codepoint`. Samples are ordered by face, then by code point; characters that a face lacks are left out.
//
// Drawing: outlines without hinting and without embedded bitmaps, at `em` pixels an em, 256 greys. The em box of a
// character is as wide as its advance and reaches from 0.12 em below the baseline to 0.88 em above. CJK designs lie
// in this range, whatever a font's line metrics are. The box is centred in the picture to 1/64 pixel.
//
// Runs in parallel on the workers of the calling arena; about 30 us a character.
// Errors: XG0411 a font is missing (with its package), XG0412 FreeType cannot read a font.
Result<std::unique_ptr<Reader>> open_glyphs(const SourceSpec& spec, StopFlag stop);
// Finds the fonts and counts their characters, but does not draw them.
Result<std::unique_ptr<Reader>> open_glyphs_header(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
