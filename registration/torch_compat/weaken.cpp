// Run on libhaloconv.so after it is linked, so that the system loads it beside a torch that lacks
// some of what it takes from torch, or has no CUDA. The library then compares the versions
// (versions.h), says what to do and stays idle. Otherwise the system would only say "undefined
// symbol" or "cannot open shared object file".
//
// The symbols that the library takes from torch become weak. Symbols with a version, as those of
// libc and libstdc++, stay required, and so do those of libhaloconv_kernels.so; the linker has
// found all of these. The named libraries are no longer required: libtorch.so loads them if torch
// has CUDA. Running it again changes nothing.
//
//   haloconv_weaken LIBRARY [NAME...]
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

class Library {
 public:
  explicit Library(const char* path) : path_(path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    bytes_.resize(std::max<std::streamoff>(file.tellg(), 0));
    file.seekg(0).read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
    if (!file || bytes_.size() < sizeof(Elf64_Ehdr) ||
        std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0 || bytes_[EI_CLASS] != ELFCLASS64) {
      throw std::runtime_error("is no 64-bit ELF file");
    }
    header_ = at<Elf64_Ehdr>(0, 1);
    sections_ = at<Elf64_Shdr>(header_->e_shoff, header_->e_shnum);
  }

  void weaken_symbols() {
    const Elf64_Shdr& symbols = section(SHT_DYNSYM);
    const Elf64_Shdr& names = sections_[symbols.sh_link];
    const size_t count = symbols.sh_size / sizeof(Elf64_Sym);
    auto* symbol = at<Elf64_Sym>(symbols.sh_offset, count);
    const auto* version = at<Elf64_Versym>(section(SHT_GNU_versym).sh_offset, count);
    for (size_t i = 1; i < count; ++i) {
      const bool is_required =
          symbol[i].st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol[i].st_info) == STB_GLOBAL;
      const char* name = at<char>(names.sh_offset + symbol[i].st_name, 1);
      if (is_required && version[i] <= VER_NDX_GLOBAL &&
          std::strstr(name, "8haloconv") == nullptr) {
        symbol[i].st_info = ELF64_ST_INFO(STB_WEAK, ELF64_ST_TYPE(symbol[i].st_info));
      }
    }
  }

  // Later entries move up. The section's end is filled with the entry that ends it.
  void no_longer_need(const std::string& name) {
    const Elf64_Shdr& dynamic = section(SHT_DYNAMIC);
    const Elf64_Shdr& names = sections_[dynamic.sh_link];
    const size_t count = dynamic.sh_size / sizeof(Elf64_Dyn);
    auto* entries = at<Elf64_Dyn>(dynamic.sh_offset, count);
    auto* end = std::remove_if(entries, entries + count, [&](const Elf64_Dyn& entry) {
      return entry.d_tag == DT_NEEDED && at<char>(names.sh_offset + entry.d_un.d_val, 1) == name;
    });
    std::fill(end, entries + count, Elf64_Dyn{DT_NULL, {}});
  }

  // In place: the file keeps its permissions.
  void write() const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
    if (!file.flush()) throw std::runtime_error("cannot be written");
  }

 private:
  template <class T>
  T* at(size_t offset, size_t count) {
    if (offset > bytes_.size() || count > (bytes_.size() - offset) / sizeof(T)) {
      throw std::runtime_error("is cut off");
    }
    return reinterpret_cast<T*>(bytes_.data() + offset);
  }

  const Elf64_Shdr& section(uint32_t type) const {
    for (int i = 0; i < header_->e_shnum; ++i) {
      if (sections_[i].sh_type == type) return sections_[i];
    }
    throw std::runtime_error("lacks a section");
  }

  std::string path_;
  std::vector<char> bytes_;
  const Elf64_Ehdr* header_;
  const Elf64_Shdr* sections_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s LIBRARY [NAME...]\n", argv[0]);
    return 1;
  }
  try {
    Library library(argv[1]);
    library.weaken_symbols();
    for (int i = 2; i < argc; ++i) library.no_longer_need(argv[i]);
    library.write();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s %s\n", argv[0], argv[1], error.what());
    return 1;
  }
  return 0;
}
