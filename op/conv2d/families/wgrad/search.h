// Finds the plans of a weight gradient that the model expects to be fast. Only a few numbers of
// each are computed, and plans that cannot be among the wanted ones are skipped early.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/wgrad/argument_steps.h"
#include "conv2d/families/wgrad/best_of_groups.h"
#include "conv2d/families/wgrad/estimate.h"
#include "conv2d/families/wgrad/plan.h"

namespace haloconv::wgrad {

inline constexpr int kSegmentPixels[] = {4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64};
inline constexpr int kSegmentChoices = std::size(kSegmentPixels);

// Whether each warpgroup takes whole vectors of a segment's pixels, of 16 bytes.
bool fits(Share share, int segment, int vector);

// A plan found: of which arrangement of the columns, in the order in which the definition lists
// them.
struct Found {
  double estimated_ms = 0;
  int32_t group = 0, order = 0;  // of a group and share; in it
  int32_t arrangement = 0;
  Share share = Share::kChannels;
  int32_t segment = 0, stages = 0, splits = 1;
  bool boxes = false;
  int64_t workspace_bytes = 0;
};

class Search {
 public:
  Search(const Conv2dProblem& problem, const Chip& chip, bool with_bias, bool precise,
         BestOfGroups& best);

  // The plans of the flattened() problem that `best` may want, in any order.
  std::vector<Found> run();
  // The plan, with splits interleaved if that helps.
  Plan plan_of(const Found& found) const;

 private:
  struct Arrangement {
    Plan plan;
    double step_cycles;
    Arguments args;
    std::array<double, kSegmentChoices> load_cycles;
  };
  // What bringing grad_output takes, by the load warps and in boxes, and at least.
  struct Bringing {
    Copies by_loads, by_boxes;
    bool has_boxes;
    double least_cycles;
  };
  struct Group {
    int32_t index, arrangement;
    Share share;
    // No more than a plan's blocks take, by segments, than its partial sums, and than both.
    std::array<double, kSegmentChoices> cycles_of;
    double partial_ms, least_ms;
  };

  void add_arrangements(const Instance& instance, double step_cycles, bool shares_columns);
  bool fits_at_all(const Plan& plan, Arguments& args) const;
  Group make_group(int32_t index, int32_t arrangement, Share share);
  StripCycles strip_of(const Arrangement& arrangement, Share share, int segment) const {
    const double steps = (share == Share::kPixels ? steps_of_half_ : steps_)[segment];
    return {.math = steps * arrangement.step_cycles, .load = arrangement.load_cycles[segment]};
  }
  const Bringing& bringing(Share share, int segment) const {
    return bringing_[share == Share::kChannels][segment];
  }
  // Those that warpgroups of this share may have.
  const std::vector<int>& choices_of(Share share) const {
    return share == Share::kPixels ? choices_of_halves_ : choices_;
  }
  void add_group(const Group& group);
  static constexpr int kTriesOfSegment = 3;
  void add_segment(const Group& group, int segment, Arguments& args);
  void add_stages(const Group& group, int segment, int try_of_segment, int stages, double strips,
                  const StripCycles& strip_cycles, const Copies& copies, Arguments& args);
  void set_bringing(Share share);
  void keep(const Group& group, const Found& found);
  void interleave(Plan& plan) const;

  const Conv2dProblem& problem_;
  const Chip& chip_;
  const bool with_bias_, precise_;
  const Rates rates_;
  const Arguments start_;  // what no plan changes
  BestOfGroups& best_;
  std::vector<Arrangement> arrangements_;
  // Places in kSegmentPixels: of those that the type and the problem have, and of these, those
  // whose halves are whole vectors.
  std::vector<int> choices_, choices_of_halves_;
  // Of each of them.
  std::array<Walks, kSegmentChoices> walks_;
  std::array<double, kSegmentChoices> steps_, steps_of_half_;  // mean_steps()
  // By whether the warpgroups share out channels.
  std::array<std::array<Bringing, kSegmentChoices>, 2> bringing_;
  double most_cycles_;  // of the blocks of a group's plan that `best` may want
  std::vector<Found> found_;
};

}  // namespace haloconv::wgrad
