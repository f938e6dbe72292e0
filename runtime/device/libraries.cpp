#include "runtime/device/libraries.h"

#include <cstdio>
#include <ft2build.h>
#include FT_FREETYPE_H
#include <jpeglib.h>
#include <oneapi/tbb/version.h>

#include "ops/dnn/dnn.h"

#define XRUN_TEXT_OF(x) #x
#define XRUN_TEXT(x) XRUN_TEXT_OF(x)

namespace xrun::runtime {
namespace {

std::string freetype_version() {
  FT_Library library = nullptr;
  if (FT_Init_FreeType(&library) != 0) {
    return "";
  }
  FT_Int major = 0;
  FT_Int minor = 0;
  FT_Int patch = 0;
  FT_Library_Version(library, &major, &minor, &patch);
  FT_Done_FreeType(library);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace

// libjpeg-turbo has no function that returns its version, so the version in the header of the same package is used.
std::map<std::string, std::string> library_versions() {
  return {{"freetype", freetype_version()},
          {"libjpeg-turbo", XRUN_TEXT(LIBJPEG_TURBO_VERSION)},
          {"onednn", ops::dnn::library_version()},
          {"tbb", TBB_runtime_version()}};
}

}  // namespace xrun::runtime
