#include "tests/support/ptx/special_registers.h"

namespace xrun::ptx {

namespace {

constexpr std::string_view kDimensions = "xyz";

struct SpecialName {
  std::string_view name;
  Constant::Kind kind;
  bool dimensions;
};

constexpr SpecialName kSpecials[] = {
    {"%tid", Constant::Kind::kThread, true},
    {"%ntid", Constant::Kind::kThreads, true},
    {"%ctaid", Constant::Kind::kBlock, true},
    {"%nctaid", Constant::Kind::kBlocks, true},
    {"%laneid", Constant::Kind::kLane, false},
    {"%warpid", Constant::Kind::kWarp, false},
    {"%nwarpid", Constant::Kind::kWarps, false},
    {"%lanemask_eq", Constant::Kind::kLanesEqual, false},
    {"%lanemask_lt", Constant::Kind::kLanesLess, false},
    {"%lanemask_le", Constant::Kind::kLanesLessEqual, false},
    {"%lanemask_gt", Constant::Kind::kLanesGreater, false},
    {"%lanemask_ge", Constant::Kind::kLanesGreaterEqual, false},
    {"%dynamic_smem_size", Constant::Kind::kDynamicShared, false},
};

}  // namespace

std::optional<Constant> find_special(std::string_view name) {
  for (const SpecialName& entry : kSpecials) {
    if (!entry.dimensions && name == entry.name) {
      return Constant{entry.kind, 0, 0};
    }
    if (entry.dimensions && name.size() == entry.name.size() + 2 && name.starts_with(entry.name)) {
      const size_t dimension = kDimensions.find(name.back());
      if (dimension != std::string_view::npos) {
        return Constant{entry.kind, 0, dimension};
      }
    }
  }
  return std::nullopt;
}

}  // namespace xrun::ptx
