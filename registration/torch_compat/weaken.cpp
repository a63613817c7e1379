// Run on libhaloconv.so after it is linked: what it takes from torch becomes weak there, so that
// the system loads it beside a torch that lacks some of that too. The library then compares the
// versions (versions.h), says what to do and stays idle, where the system would say "undefined
// symbol" alone.
//
// Nothing else is changed. What has a version, as libc's and libstdc++'s functions do, stays
// required; so does what libhaloconv_kernels.so has, and linking the library has found all of it.
//
//   haloconv_weaken LIBRARY
#include <elf.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

class Library {
 public:
  explicit Library(const char* path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes_.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0 ||
        bytes_[EI_CLASS] != ELFCLASS64) {
      throw std::runtime_error("is no 64-bit ELF file");
    }
    header_ = at<Elf64_Ehdr>(0, 1);
    sections_ = at<Elf64_Shdr>(header_->e_shoff, header_->e_shnum);
  }

  void weaken() {
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
    throw std::runtime_error("has no table of symbols and their versions");
  }

  std::string path_;
  std::vector<char> bytes_;
  const Elf64_Ehdr* header_;
  const Elf64_Shdr* sections_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
    return 1;
  }
  try {
    Library library(argv[1]);
    library.weaken();
    library.write();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s %s\n", argv[0], argv[1], error.what());
    return 1;
  }
  return 0;
}
