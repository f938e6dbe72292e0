#include "runtime/data/glyphs.h"

#include <fmt/format.h>
#include <ft2build.h>
#include <tbb/parallel_for.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/data/fonts.h"

namespace xrun::runtime {
namespace {

constexpr double kEmAbove = 0.88;  // of the em box, above the baseline
constexpr double kEmBelow = 0.12;
// Characters a task: opening a face takes milliseconds, drawing this many about 60.
constexpr int64_t kRunLength = 2048;

struct GlyphSpec {
  int64_t first = 0;
  int64_t last = 0;  // one past the end
  int64_t size = 0;
  int64_t em = 0;
};

struct Sample {
  int32_t codepoint = 0;
  int16_t font = 0;
  bool broken = false;  // the face has an outline that cannot be drawn
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
      return Error{
          .kind = ErrorKind::kContent,
          .code = "XG0412",
          .message = fmt::format("FreeType cannot open face {} of {} (its error {})", font.face, font.path, error),
          .help = "install the font again, or choose a face that the collection has"};
    }
    made.face_.reset(face);
    if (!FT_IS_SCALABLE(face) || face->charmap == nullptr ||
        FT_Set_Pixel_Sizes(face, 0, static_cast<FT_UInt>(em)) != 0) {
      return Error{.kind = ErrorKind::kContent,
                   .code = "XG0412",
                   .message = fmt::format("face {} of {} has no Unicode outlines", font.face, font.path),
                   .help = "choose another font"};
    }
    return made;
  }

  // Glyph of a character; 0 when the face lacks it.
  uint32_t glyph(int64_t codepoint) const { return FT_Get_Char_Index(face_.get(), static_cast<FT_ULong>(codepoint)); }

  // Draws into out[size * size], which is zero. False when the outline is broken.
  bool draw(uint32_t glyph, const GlyphSpec& spec, uint8_t* out) {
    if (FT_Load_Glyph(face_.get(), glyph, FT_LOAD_NO_BITMAP | FT_LOAD_NO_HINTING) != 0 ||
        face_->glyph->format != FT_GLYPH_FORMAT_OUTLINE) {
      return false;
    }
    FT_GlyphSlot slot = face_->glyph;
    const auto size = static_cast<double>(spec.size) * 64;
    const auto em = static_cast<double>(spec.em) * 64;
    const double left = (size - static_cast<double>(slot->advance.x)) / 2;
    const double baseline = (size - em) / 2 + kEmBelow * em;  // from the bottom edge
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

std::string utf8(int64_t codepoint) {
  const auto c = static_cast<uint32_t>(codepoint);
  std::string out;
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
  return out;
}

class GlyphReader final : public Reader {
 public:
  GlyphReader(GlyphSpec spec, std::vector<FontFace> fonts, std::vector<Field> fields)
      : spec_(spec), fonts_(std::move(fonts)), fields_(std::move(fields)) {}

  Status load() {
    for (size_t i = 0; i < fonts_.size(); ++i) {
      XRUN_ASSIGN(const OpenFace face, OpenFace::open(fonts_[i], spec_.em));
      for (int64_t c = spec_.first; c < spec_.last; ++c) {
        if (face.glyph(c) != 0) {
          samples_.push_back({static_cast<int32_t>(c), static_cast<int16_t>(i), false});
        }
      }
    }
    pixels_.resize(samples_.size() * picture_bytes());
    return draw_all();
  }

  int64_t samples() const override { return static_cast<int64_t>(samples_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return spec_.last - spec_.first; }

  Status read(int64_t sample, int field, FieldValue& out) const override {
    const Sample& at = samples_[static_cast<size_t>(sample)];
    switch (field) {
      case 0: {
        if (at.broken) {
          return Error{.kind = ErrorKind::kContent,
                       .code = "XG0412",
                       .message = fmt::format("{} has a broken outline", sample_name(sample)),
                       .help = "install the font again"};
        }
        const std::array<int64_t, 3> shape{1, spec_.size, spec_.size};
        const auto* bytes = reinterpret_cast<const std::byte*>(pixels_.data());
        out.set_view(DType::kU8, shape, {bytes + static_cast<size_t>(sample) * picture_bytes(), picture_bytes()});
        return {};
      }
      case 1:
        out.set_integer(DType::kI32, at.codepoint - spec_.first);
        return {};
      case 2:
        out.set_integer(DType::kI32, at.font);
        return {};
      default:
        out.set_integer(DType::kI32, at.codepoint);
        return {};
    }
  }

  std::string class_name(int64_t label) const override { return utf8(spec_.first + label); }
  std::string sample_name(int64_t sample) const override {
    const Sample& at = samples_[static_cast<size_t>(sample)];
    return fmt::format("{} U+{:04X}", fonts_[static_cast<size_t>(at.font)].name, at.codepoint);
  }
  std::string describe() const override {
    return fmt::format("glyphs: {} {}, {} images of {}x{}, {} classes", fonts_.size(),
                       fonts_.size() == 1 ? "face" : "faces", format_count(samples()), spec_.size, spec_.size,
                       format_count(classes()));
  }
  Bytes memory() const override {
    return static_cast<Bytes>(pixels_.capacity() + samples_.capacity() * sizeof(Sample));
  }

 private:
  size_t picture_bytes() const { return static_cast<size_t>(spec_.size * spec_.size); }

  // Draws runs of samples of one face in parallel; each task has its own FreeType library, so nothing is shared.
  Status draw_all() {
    struct Run {
      size_t begin = 0;
      size_t end = 0;
    };
    std::vector<Run> runs;
    for (size_t begin = 0; begin < samples_.size();) {
      size_t end = begin;
      while (end < samples_.size() && samples_[end].font == samples_[begin].font &&
             end - begin < static_cast<size_t>(kRunLength)) {
        ++end;
      }
      runs.push_back({begin, end});
      begin = end;
    }
    std::vector<Status> results(runs.size());
    tbb::parallel_for(size_t{0}, runs.size(), [&](size_t i) { results[i] = draw_run(runs[i].begin, runs[i].end); });
    for (Status& result : results) {
      XRUN_TRY(std::move(result));
    }
    return {};
  }

  Status draw_run(size_t begin, size_t end) {
    XRUN_ASSIGN(OpenFace face, OpenFace::open(fonts_[static_cast<size_t>(samples_[begin].font)], spec_.em));
    for (size_t i = begin; i < end; ++i) {
      samples_[i].broken = !face.draw(face.glyph(samples_[i].codepoint), spec_, pixels_.data() + i * picture_bytes());
    }
    return {};
  }

  GlyphSpec spec_;
  std::vector<FontFace> fonts_;
  std::vector<Field> fields_;
  std::vector<Sample> samples_;
  std::vector<uint8_t> pixels_;
};

}  // namespace

Result<std::unique_ptr<Reader>> open_glyphs(const SourceSpec& spec) {
  const Attrs& args = spec.reader.args;
  XRUN_ASSIGN(auto fields, data_registry().find_reader("glyphs")->fields(args));
  const auto& chars = args.integers("chars");
  const GlyphSpec glyphs{chars[0], chars[1], args.integer("size"), args.integer("em")};
  std::vector<FontFace> fonts;
  for (const std::string& name : args.texts("fonts")) {
    XRUN_ASSIGN(FontFace font, find_font(name));
    fonts.push_back(std::move(font));
  }
  auto reader = std::make_unique<GlyphReader>(glyphs, std::move(fonts), std::move(fields));
  XRUN_TRY(reader->load());
  return std::unique_ptr<Reader>(std::move(reader));
}

}  // namespace xrun::runtime
