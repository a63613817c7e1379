#include "conv2d/families/first_layers/units.h"

#include <algorithm>

#include "conv2d/geometry/integers.h"

namespace haloconv::sm90::first_layers {

namespace {

// A plane while rows are made, with its groups' greatest distance along it.
struct Plane {
  int32_t first_column, taps, reach;
};

}  // namespace

UnitRow make_unit_row(const Conv2dProblem& problem, int32_t columns, bool pairs, bool ones) {
  UnitRow row{};
  row.elements = static_cast<int32_t>(kUnitBytes / size_of(problem.type));
  row.channels = static_cast<int32_t>(problem.c);
  row.ones = ones ? row.channels : -1;
  while (1 << row.log_padded < row.channels + (ones ? 1 : 0)) ++row.log_padded;
  if (1 << row.log_padded > row.elements) return {};
  row.stride = static_cast<int32_t>(problem.stride_w);
  row.dilation = static_cast<int32_t>(problem.dilation_w);
  const int32_t pixels = row.elements >> row.log_padded;
  const auto taps = static_cast<int32_t>(problem.s);
  const auto own_groups = static_cast<int32_t>(ceil_div(taps, pixels));
  const int32_t groups = pairs ? static_cast<int32_t>(round_up(own_groups, 2)) : own_groups;
  if (groups > kMaxGroups) return {};

  Plane planes[kMaxPlanes];
  int32_t plane_of[kMaxGroups], shift_of[kMaxGroups], count = 0;
  for (int32_t g = 0; g < groups; ++g) {
    const int32_t offset = g * pixels * row.dilation;
    Plane plane = {offset % row.stride,
                   pairs ? std::clamp<int32_t>(taps - g * pixels, 0, pixels) : pixels,
                   offset / row.stride};
    // Zeros come after all others.
    if (plane.taps == 0) plane.first_column = plane.reach = 0;
    shift_of[g] = plane.reach;
    int32_t& at = plane_of[g];
    for (at = 0; at < count; ++at) {
      if (planes[at].first_column == plane.first_column && planes[at].taps == plane.taps) break;
    }
    if (at == kMaxPlanes) return {};
    if (at == count) planes[count++] = plane;
    planes[at].reach = std::max(planes[at].reach, plane.reach);
  }
  for (; row.planes < count; ++row.planes) {
    const Plane& from = planes[row.planes];
    row.plane[row.planes] = {row.units, columns + from.reach, from.first_column, from.taps};
    row.units += columns + from.reach;
  }
  for (; row.groups < groups; ++row.groups) {
    const int32_t g = row.groups;
    row.group[g] = {row.plane[plane_of[g]].first_unit + shift_of[g], g * pixels,
                    std::clamp<int32_t>(taps - g * pixels, 0, pixels)};
  }
  std::sort(row.group, row.group + groups,
            [](const TapGroup& a, const TapGroup& b) { return a.unit < b.unit; });
  return row;
}

}  // namespace haloconv::sm90::first_layers
