#include "registration/rewrite.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <sstream>

#include "registration/draft.h"
#include "registration/library.h"
#include "registration/rewrite/graphs.h"
#include "registration/torch_compat/jit_files.h"

namespace haloconv {
namespace {

// torch's messages continue with a stack trace.
std::string first_line(const std::exception& error) {
  const std::string what = error.what();
  const size_t begin = std::min(what.find_first_not_of('\n'), what.size());
  return what.substr(begin, what.find('\n', begin) - begin);
}

void check_name(const char* argument, const std::string& name) {
  TORCH_CHECK(!name.empty() && name.find('\0') == std::string::npos, "haloconv::rewrite: expected ",
              argument, " to be a file's name, but got \"", name.c_str(), '"');
}

torch::jit::Module load(const std::string& path, torch::jit::ExtraFilesMap& extra_files) {
  try {
    extra_files = extra_files_of(path);
    return torch::jit::load(path, std::nullopt, extra_files);
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "haloconv::rewrite: \"", path,
                "\" is no TorchScript model that can be read here: ", first_line(error));
  }
}

// Does what writes a file; an error names it.
template <typename Action>
void with_name(const std::string& output, const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "haloconv::rewrite: \"", output,
                "\" cannot be written: ", first_line(error));
  }
}

std::string rewrite_file_to_text(c10::string_view input, c10::string_view output, bool freeze,
                                 bool fuse) {
  std::ostringstream text;
  text << rewrite_file(std::string(input), std::string(output), {.freeze = freeze, .fuse = fuse});
  return text.str();
}

HALOCONV_DEFINE(m) {
  m.def("rewrite_file(str input, str output, bool freeze=False, bool fuse=True) -> str",
        &rewrite_file_to_text);
}

}  // namespace

torch::jit::Module rewrite(const torch::jit::Module& module, const RewriteOptions& options,
                           RewriteReport* report) {
  // Not by clone(), which copies shared submodules apart and loses hooks.
  std::stringstream copy;
  module.save(copy);
  RewriteReport done;
  torch::jit::Module rewritten = rewrite_own(torch::jit::load(copy), options, done);
  if (report != nullptr) *report = std::move(done);
  return rewritten;
}

RewriteReport rewrite_file(const std::string& input, const std::string& output,
                           const RewriteOptions& options, const Inspection& inspect) {
  check_name("input", input);
  check_name("output", output);
  std::error_code ignored;
  TORCH_CHECK(!std::filesystem::equivalent(input, output, ignored),
              "haloconv::rewrite: expected output to be another file than input, but both are \"",
              input, '"');
  RewriteReport report;
  torch::jit::ExtraFilesMap extra_files;
  const torch::jit::Module rewritten = rewrite_own(load(input, extra_files), options, report);
  TORCH_CHECK(!report.replaced.empty(), "haloconv::rewrite: \"", input,
              "\" has no convolution to replace: ", report);
  std::optional<Draft> draft;
  with_name(output, [&] {
    draft.emplace(output);
    write_module(rewritten, extra_files,
                 [&](const void* data, size_t size) { draft->write(data, size); });
    draft->check();
  });
  if (inspect) inspect(draft->path());
  with_name(output, [&] { draft->keep(); });
  return report;
}

void abandon_files() { Draft::abandon_all(); }

std::ostream& operator<<(std::ostream& os, const RewriteReport& report) {
  const auto fused = std::count_if(report.fused.begin(), report.fused.end(),
                                   [](const auto& found) { return !found.what.empty(); });
  os << "replaced " << report.replaced.size() << ", left " << report.left.size() << ", fused "
     << fused << '\n';
  for (const auto& found : report.replaced) os << "  replaced " << found.where << '\n';
  for (const auto& found : report.left) os << "  left " << found.where << ": " << found.why << '\n';
  for (const auto& [where, what, why] : report.fused) {
    os << "  fused " << (what.empty() ? "nothing" : what) << " into " << where
       << (why.empty() ? "" : ": ") << why << '\n';
  }
  for (const std::string& method : report.dropped)
    os << "  dropped by freezing " << method << "()\n";
  return os;
}

}  // namespace haloconv
