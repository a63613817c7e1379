// A program in which torch says that it is for another CUDA than it is: it loads the library, and
// prints those of its operators that are registered then, one a line.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <cstdio>

namespace {

struct OtherCuda : at::CUDAHooksInterface {
  bool hasCUDART() const override { return true; }
  long versionCUDART() const override { return 99'000; }  // as CUDA counts, 99.0
};

}  // namespace

// A program's own function comes before torch's, whoever calls it.
const at::CUDAHooksInterface& at::detail::getCUDAHooks() {
  static const OtherCuda hooks;
  return hooks;
}

int main(int argc, char** argv) {
  if (argc != 2 || dlopen(argv[1], RTLD_NOW) == nullptr) {
    std::fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
    return 1;
  }
  for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames()) {
    if (op.name.starts_with("haloconv::")) std::printf("%s\n", op.name.c_str());
  }
  return 0;
}
