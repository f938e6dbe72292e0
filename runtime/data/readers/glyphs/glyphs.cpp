// Loads the pictures of all faces into memory. Faces that were drawn by an earlier run come from the cache on disk. For
// the other faces, their characters are listed, cut into groups of kRunLength, and drawn by parallel tasks. A task
// draws a group, not a face, since faces differ much in their number of characters. Each task opens its own FreeType
// library, because FreeType objects belong to one thread. Drawn faces are then stored in the cache.
#include "runtime/data/readers/glyphs/glyphs.h"

#include <fmt/format.h>
#include <ft2build.h>
#include <tbb/parallel_for.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "runtime/data/readers/glyphs/fonts.h"
#include "runtime/data/readers/glyphs/glyph_cache.h"

namespace xrun::runtime {
namespace {

constexpr double kEmAbove = 0.88;  // top of the em box, above the baseline
constexpr double kEmBelow = 0.12;
// Characters per task: opening a face takes milliseconds, drawing this many about 60.
constexpr size_t kRunLength = 2048;
// The version of the drawing code. Increase it if characters are drawn differently, so that old caches are not used.
constexpr int kDrawVersion = 1;

struct GlyphSpec {
  int64_t first = 0;
  int64_t last = 0;  // one after the last code point
  int64_t size = 0;
  int64_t em = 0;
};

// A face with the library that owns it: FreeType objects belong to one thread.
class OpenFace {
 public:
  static Result<OpenFace> open(const FontFace& font, int64_t em) {
    OpenFace made;
    FT_Library library = nullptr;
    if (FT_Init_FreeType(&library) != 0) {
      return Error{.kind = ErrorKind::kWorld, .message = "FreeType does not start", .help = "free some memory"};
    }
    made.library_.reset(library);
    FT_Face face = nullptr;
    if (const FT_Error error = FT_New_Face(library, font.path.c_str(), font.face, &face); error != 0) {
      return content_error("XG0412", {"FreeType cannot open face {} of {} (its error {})", font.face, font.path, error},
                           "install the font again, or choose a face that the collection has");
    }
    made.face_.reset(face);
    if (!FT_IS_SCALABLE(face) || face->charmap == nullptr ||
        FT_Set_Pixel_Sizes(face, 0, static_cast<FT_UInt>(em)) != 0) {
      return content_error("XG0412", {"face {} of {} has no Unicode outlines", font.face, font.path},
                           "choose another font");
    }
    return made;
  }

  // Returns the glyph number of a character; 0 if the face lacks it.
  uint32_t glyph(int64_t codepoint) const { return FT_Get_Char_Index(face_.get(), static_cast<FT_ULong>(codepoint)); }

  // Draws the glyph into out[size * size], which must be zero. Returns false if the outline is broken.
  bool draw(uint32_t glyph, const GlyphSpec& spec, uint8_t* out) {
    if (FT_Load_Glyph(face_.get(), glyph, FT_LOAD_NO_BITMAP | FT_LOAD_NO_HINTING) != 0 ||
        face_->glyph->format != FT_GLYPH_FORMAT_OUTLINE) {
      return false;
    }
    FT_GlyphSlot slot = face_->glyph;
    const auto size = static_cast<double>(spec.size) * 64;
    const auto em = static_cast<double>(spec.em) * 64;
    const double left = (size - static_cast<double>(slot->advance.x)) / 2;
    const double baseline = (size - em) / 2 + kEmBelow * em;  // distance from the bottom edge
    static_assert(kEmAbove + kEmBelow == 1.0);
    FT_Outline_Translate(&slot->outline, std::lround(left), std::lround(baseline));
    FT_Bitmap bitmap{};
    bitmap.rows = static_cast<unsigned>(spec.size);
    bitmap.width = static_cast<unsigned>(spec.size);
    bitmap.pitch = static_cast<int>(spec.size);
    bitmap.buffer = out;
    bitmap.num_grays = 256;
    bitmap.pixel_mode = FT_PIXEL_MODE_GRAY;
    return FT_Outline_Get_Bitmap(library_.get(), &slot->outline, &bitmap) == 0;
  }

 private:
  struct CloseLibrary {
    void operator()(FT_Library library) const { FT_Done_FreeType(library); }
  };
  struct CloseFace {
    void operator()(FT_Face face) const { FT_Done_Face(face); }
  };
  std::unique_ptr<FT_LibraryRec_, CloseLibrary> library_;  // outlives the face
  std::unique_ptr<FT_FaceRec_, CloseFace> face_;
};

class GlyphReader final : public Reader {
 public:
  GlyphReader(GlyphSpec spec, std::vector<FontFace> fonts, std::vector<Field> fields)
      : spec_(spec), fonts_(std::move(fonts)), fields_(std::move(fields)) {}

  // Loads faces from the cache, draws the others, and stores those in the cache.
  Status load(StopFlag stop) {
    faces_.resize(fonts_.size());
    std::vector<std::string> cached(fonts_.size());
    std::vector<Run> runs;
    for (size_t i = 0; i < fonts_.size(); ++i) {
      XRUN_TRY(check_stop(stop));
      cached[i] = glyph_cache_path(fonts_[i].path, settings(fonts_[i].face));
      if (auto face = load_drawn_face(cached[i], static_cast<int64_t>(picture_bytes()))) {
        faces_[i] = *std::move(face);
        cached[i].clear();
      } else {
        XRUN_TRY(list_characters(i));
        add_runs(i, runs);
      }
    }
    XRUN_TRY(draw(runs, stop));
    for (size_t i = 0; i < fonts_.size(); ++i) {
      if (!cached[i].empty() && !faces_[i].codepoints.empty()) {
        store_drawn_face(cached[i], faces_[i]);
      }
    }
    count();
    return {};
  }

  // Lists the characters of all faces, without pictures.
  Status list(StopFlag stop) {
    faces_.resize(fonts_.size());
    for (size_t i = 0; i < fonts_.size(); ++i) {
      XRUN_TRY(check_stop(stop));
      XRUN_TRY(list_characters(i));
    }
    count();
    return {};
  }

  int64_t samples() const override { return samples_; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return spec_.last - spec_.first; }

  Status read(int64_t sample, int field, FieldValue& out) const override {
    const auto [font, index] = place_of(sample);
    const DrawnFace& face = faces_[font];
    switch (field) {
      case 0: {
        const std::array<int64_t, 3> shape{1, spec_.size, spec_.size};
        const auto pixels = std::as_bytes(std::span(face.pixels));
        out.set_view(DType::kU8, shape, pixels.subspan(index * picture_bytes(), picture_bytes()));
        return {};
      }
      case 1:
        out.set_integer(DType::kI32, face.codepoints[index] - spec_.first);
        return {};
      case 2:
        out.set_integer(DType::kI32, static_cast<int64_t>(font));
        return {};
      default:
        out.set_integer(DType::kI32, face.codepoints[index]);
        return {};
    }
  }

  std::string class_name(int64_t label) const override {
    std::string name;
    append_utf8(name, static_cast<uint32_t>(spec_.first + label));
    return name;
  }
  std::string sample_name(int64_t sample) const override {
    const auto [font, index] = place_of(sample);
    return fmt::format("{} U+{:04X}", fonts_[font].name, faces_[font].codepoints[index]);
  }
  std::string describe() const override {
    return fmt::format("glyphs: {}, {} of {}x{}, {}", counted(std::ssize(fonts_), "face"), counted(samples(), "image"),
                       spec_.size, spec_.size, counted(classes(), "class"));
  }
  Bytes memory() const override {
    Bytes bytes = 0;
    for (const DrawnFace& face : faces_) {
      bytes += static_cast<Bytes>(face.pixels.capacity() + face.codepoints.capacity() * sizeof(int32_t));
    }
    return bytes;
  }

 private:
  // A group of characters [begin, end) of a face, which one task draws.
  struct Run {
    size_t font = 0;
    size_t begin = 0;
    size_t end = 0;
  };

  size_t picture_bytes() const { return static_cast<size_t>(spec_.size * spec_.size); }

  std::pair<size_t, size_t> place_of(int64_t sample) const {
    const auto next = std::ranges::upper_bound(first_, sample);
    const auto font = static_cast<size_t>(next - first_.begin()) - 1;
    return {font, static_cast<size_t>(sample - first_[font])};
  }

  // The settings that pictures depend on, in addition to the font file.
  std::string settings(int face) const {
    return fmt::format("{}|{}|{}..{}|{}|{}|{}.{}.{}", kDrawVersion, face, spec_.first, spec_.last, spec_.size, spec_.em,
                       FREETYPE_MAJOR, FREETYPE_MINOR, FREETYPE_PATCH);
  }

  void count() {
    for (const DrawnFace& face : faces_) {
      first_.push_back(samples_);
      samples_ += static_cast<int64_t>(face.codepoints.size());
    }
  }

  Status list_characters(size_t font) {
    XRUN_ASSIGN(const OpenFace face, OpenFace::open(fonts_[font], spec_.em));
    auto& codepoints = faces_[font].codepoints;
    codepoints.reserve(static_cast<size_t>(spec_.last - spec_.first));  // the capacity must match `glyphs_held`
    for (int64_t c = spec_.first; c < spec_.last; ++c) {
      if (face.glyph(c) != 0) {
        codepoints.push_back(static_cast<int32_t>(c));
      }
    }
    return {};
  }

  void add_runs(size_t font, std::vector<Run>& runs) {
    const auto& codepoints = faces_[font].codepoints;
    faces_[font].pixels.resize(codepoints.size() * picture_bytes());
    for (size_t begin = 0; begin < codepoints.size(); begin += kRunLength) {
      runs.push_back({font, begin, std::min(codepoints.size(), begin + kRunLength)});
    }
  }

  // Draws all groups in parallel. Each task has its own FreeType library, so nothing is shared.
  Status draw(const std::vector<Run>& runs, StopFlag stop) {
    std::vector<Status> results(runs.size());
    tbb::parallel_for(size_t{0}, runs.size(), [&](size_t i) { results[i] = draw_run(runs[i], stop); });
    for (Status& result : results) {
      XRUN_TRY(std::move(result));
    }
    return {};
  }

  Status draw_run(const Run& run, StopFlag stop) {
    XRUN_ASSIGN(OpenFace face, OpenFace::open(fonts_[run.font], spec_.em));
    DrawnFace& drawn = faces_[run.font];
    for (size_t i = run.begin; i < run.end; ++i) {
      XRUN_TRY(check_stop(stop));
      if (!face.draw(face.glyph(drawn.codepoints[i]), spec_, drawn.pixels.data() + i * picture_bytes())) {
        return content_error("XG0412",
                             {"{} has a broken outline for U+{:04X}", fonts_[run.font].path, drawn.codepoints[i]},
                             "install the font again");
      }
    }
    return {};
  }

  GlyphSpec spec_;
  std::vector<FontFace> fonts_;
  std::vector<Field> fields_;
  std::vector<DrawnFace> faces_;  // index: font
  std::vector<int64_t> first_;    // number of the first sample of each font
  int64_t samples_ = 0;
};

Result<std::unique_ptr<GlyphReader>> make_reader(const SourceSpec& spec) {
  const Attrs& args = spec.reader.args;
  XRUN_ASSIGN(auto fields, data_registry().find_reader("glyphs")->fields(args));
  const auto& chars = args.integers("chars");
  const GlyphSpec glyphs{chars[0], chars[1], args.integer("size"), args.integer("em")};
  std::vector<FontFace> fonts;
  for (const std::string& name : args.texts("fonts")) {
    XRUN_ASSIGN(FontFace font, find_font(name));
    fonts.push_back(std::move(font));
  }
  return std::make_unique<GlyphReader>(glyphs, std::move(fonts), std::move(fields));
}

}  // namespace

Result<std::unique_ptr<Reader>> open_glyphs(const SourceSpec& spec, StopFlag stop) {
  XRUN_ASSIGN(auto reader, make_reader(spec));
  XRUN_TRY(reader->load(stop));
  return std::unique_ptr<Reader>(std::move(reader));
}

Result<std::unique_ptr<Reader>> open_glyphs_header(const SourceSpec& spec, StopFlag stop) {
  XRUN_ASSIGN(auto reader, make_reader(spec));
  XRUN_TRY(reader->list(stop));
  return std::unique_ptr<Reader>(std::move(reader));
}

}  // namespace xrun::runtime
