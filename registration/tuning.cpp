#include "registration/tuning.h"

#include <cmath>
#include <exception>
#include <functional>

#include "registration/find_operator.h"
#include "registration/library.h"
#include "registration/tuning/process_store.h"
#if HALOCONV_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>

#include "chip/chip_of_device.h"
#include "registration/conv2d/select.h"
#include "registration/conv2d/tune.h"
#endif

namespace haloconv::tuning {
namespace {

// What `act` raises becomes an error that names the function and the file.
void with_file(const char* function, c10::string_view file, const char* failure,
               const std::function<void(const std::string&)>& act) {
  TORCH_CHECK(!file.empty() && file.find('\0') == file.npos, "haloconv::tuning::", function,
              ": expected file to be a file's name, but got \"", file, '"');
  try {
    act(std::string(file));
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "haloconv::tuning::", function, ": \"", file, "\" ", failure, ": ",
                error.what());
  }
}

void save_here(c10::string_view file) {
  with_file("save", file, "cannot be written",
            [](const std::string& name) { process_store().save(name); });
}

void load_here(c10::string_view file) {
  with_file("load", file, "cannot be read",
            [](const std::string& name) { process_store().load(name); });
}

// The store is cleared first: otherwise a selection made in between would keep what it had said.
void clear_here() {
  process_store().clear();
#if HALOCONV_HAS_CUDA
  forget_selections();
#endif
}

Environment environment_of([[maybe_unused]] c10::Device device) {
#if HALOCONV_HAS_CUDA
  if (device.is_cuda()) {
    const int index = device.has_index() ? device.index() : c10::cuda::current_device();
    return haloconv::environment_of(chip_of_device(index));
  }
#endif
  return process_store().here();
}

// The text that tuning_add() was given, here or in a process whose file this one reads; "" if
// nothing is known. So whole graphs, which Python times, are decided once, as single problems are.
std::string find_here(c10::string_view problem, c10::Device device) {
  const auto record = process_store().find(environment_of(device), std::string(problem));
  return record ? record->plan : "";
}

std::string add_here(c10::string_view problem, c10::Device device, c10::string_view found,
                     double ms) {
  TORCH_CHECK(std::isfinite(ms), "haloconv::tuning_add: expected ms to be finite, but got ", ms);
  const Record record = {.family = "graph", .plan = std::string(found), .ms = ms};
  return process_store().add(environment_of(device), std::string(problem), record).plan;
}

}  // namespace
}  // namespace haloconv::tuning

namespace haloconv {

HALOCONV_DEFINE(m) {
  m.def("tuning_save(str file) -> ()", &tuning::save_here);
  m.def("tuning_load(str file) -> ()", &tuning::load_here);
  m.def("tuning_clear() -> ()", &tuning::clear_here);
  m.def("tuning_find(str problem, Device device) -> str", &tuning::find_here);
  m.def("tuning_add(str problem, Device device, str found, float ms) -> str", &tuning::add_here);
}

}  // namespace haloconv

namespace haloconv::tuning {

void save(const std::string& file) {
  static const auto op = find_operator<decltype(save_here)>("haloconv::tuning_save");
  op.call(file);
}

void load(const std::string& file) {
  static const auto op = find_operator<decltype(load_here)>("haloconv::tuning_load");
  op.call(file);
}

void clear() {
  static const auto op = find_operator<decltype(clear_here)>("haloconv::tuning_clear");
  op.call();
}

}  // namespace haloconv::tuning
