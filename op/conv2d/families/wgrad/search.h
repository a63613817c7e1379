// Finds the plans of a weight gradient that the model expects to be fast. Only a few numbers of
// each are computed, and plans that cannot be among the wanted ones are skipped early.
#pragma once

#include <cstdint>
#include <vector>

#include "chip/chip.h"
#include "conv2d/families/wgrad/argument_steps.h"
#include "conv2d/families/wgrad/best_of_groups.h"
#include "conv2d/families/wgrad/plan.h"

namespace haloconv::wgrad {

inline constexpr int kSegmentPixels[] = {4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64};

// Whether each warpgroup takes whole vectors of a segment's pixels.
bool fits(Share share, int segment, DataType type);

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
  };
  struct Group {
    int32_t index, arrangement;
    Share share;
    double least_ms;
  };

  void add_arrangements(const Instance& instance, double step_cycles, bool shares_columns);
  double least_ms(const Arrangement& arrangement, Share share) const;
  void add_group(const Group& group);
  void add_segment(const Group& group, int segment, Arguments& args);
  void add_stages(const Group& group, int segment, int stages, Arguments& args);
  void interleave(Plan& plan) const;

  const Conv2dProblem& problem_;
  const Chip& chip_;
  const bool with_bias_, precise_;
  const double bytes_;
  BestOfGroups& best_;
  std::vector<Arrangement> arrangements_;
  std::vector<Walks> walks_;  // of each of kSegmentPixels
  std::vector<Found> found_;
};

}  // namespace haloconv::wgrad
