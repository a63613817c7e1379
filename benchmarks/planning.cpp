// How long a plan takes for a shape never seen: choose() on one core, without a GPU.
//
//   build/benchmarks/planning [file of cpp_tests/shapes]...     all files by default
//
// For each file, layout, type and direction the mean over its shapes and the slowest of them. A
// shape's time is the median of some fresh calls.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "conv2d/choice.h"
#include "cpp_tests/shapes.h"

namespace {

using namespace haloconv;
using haloconv::testing::load_shapes;
using haloconv::testing::Shape;

constexpr int kCalls = 15;

struct Type {
  const char* name;
  DataType type;
  bool tf32;
};
constexpr Type kTypes[] = {{"TF32", DataType::kFloat32, true},
                           {"float32", DataType::kFloat32, false},
                           {"bfloat16", DataType::kBFloat16, true}};
constexpr Direction kDirections[] = {Direction::kFprop, Direction::kDgrad, Direction::kWgrad};

// Of one call in microseconds.
double median_time(const Conv2dProblem& problem, Direction direction, bool tf32) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int call = 0; call < kCalls; ++call) {
    const auto start = Clock::now();
    const Choice choice = choose({.problem = problem,
                                  .direction = direction,
                                  .tf32 = tf32,
                                  .with_bias = direction == Direction::kWgrad});
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    if (choice.candidates.empty()) times.back() = 0;  // never: the call is not left out
  }
  const auto median = times.begin() + kCalls / 2;
  std::nth_element(times.begin(), median, times.end());
  return *median;
}

// Of some calls for different shapes.
struct Times {
  double sum = 0, most = 0;
  int count = 0;
  std::string slowest;

  void add(double time, const std::string& name) {
    sum += time;
    ++count;
    if (time <= most) return;
    most = time;
    slowest = name;
  }
  double mean() const { return count == 0 ? 0 : sum / count; }
};

Times measure(const std::vector<Shape>& shapes, bool channels_last, const Type& type,
              Direction direction) {
  Times times;
  for (const Shape& shape : shapes) {
    Conv2dProblem problem = shape.problem;
    problem.type = type.type;
    problem.set_dense_strides(channels_last);
    times.add(median_time(problem, direction, type.tf32), shape.name);
  }
  return times;
}

void measure_file(const std::string& file) {
  const std::vector<Shape> shapes = load_shapes(file);
  for (const bool channels_last : {false, true}) {
    for (const Type& type : kTypes) {
      for (const Direction direction : kDirections) {
        const Times times = measure(shapes, channels_last, type, direction);
        std::printf("%-10s %-9s %-9s %-6s %8.1f %8.1f  %s\n", file.c_str(),
                    channels_last ? "channels" : "rows", type.name, name_of(direction).data(),
                    times.mean(), times.most, times.slowest.c_str());
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> files(argv + 1, argv + argc);
  if (files.empty()) files = {"reference", "networks", "layers", "edges", "empty"};
  std::printf("%-10s %-9s %-9s %-6s %8s %8s  %s\n", "file", "innermost", "type", "", "mean us",
              "most us", "slowest");
  for (const std::string& file : files) measure_file(file);
} catch (const std::exception& error) {
  std::fprintf(stderr, "planning: %s\n", error.what());
  return 1;
}
