// Reads the symbol plugin_version of a Slurm plugin from its file. dlopen() would run the plugin's code, and fails
// outside Slurm's daemons, whose functions the plugin needs.
#include <elf.h>

#include <cstring>
#include <fstream>

#include "planner/cli/doctor/gather.hpp"

namespace espalier::cli::doctor {
namespace {

constexpr std::streamoff kMostBytes = 64 << 20;

// A record at an offset of the file; nullopt: the file ends before it does.
template <class Record>
std::optional<Record> at(const std::string& file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(Record)) return std::nullopt;
  Record record;
  std::memcpy(&record, file.data() + offset, sizeof record);
  return record;
}

// Where in the file an address of the loaded plugin comes from.
std::optional<std::uint64_t> offset_of(const std::string& file, const Elf64_Ehdr& header, std::uint64_t address) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = at<Elf64_Phdr>(file, header.e_phoff + std::uint64_t{i} * sizeof(Elf64_Phdr));
    if (segment && segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
        address - segment->p_vaddr < segment->p_filesz)
      return segment->p_offset + (address - segment->p_vaddr);
  }
  return std::nullopt;
}

bool is_named(const std::string& file, std::uint64_t offset, const char* name) {
  const std::size_t size = std::strlen(name) + 1;  // with the terminating zero
  return offset <= file.size() && file.size() - offset >= size && std::memcmp(file.data() + offset, name, size) == 0;
}

std::optional<std::uint32_t> value_of(const std::string& file, const char* name) {
  const auto header = at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
    return std::nullopt;
  for (unsigned i = 0; i < header->e_shnum; ++i) {
    const auto table = at<Elf64_Shdr>(file, header->e_shoff + std::uint64_t{i} * sizeof(Elf64_Shdr));
    if (!table || table->sh_type != SHT_DYNSYM) continue;
    const auto names = at<Elf64_Shdr>(file, header->e_shoff + std::uint64_t{table->sh_link} * sizeof(Elf64_Shdr));
    if (!names) return std::nullopt;
    for (std::uint64_t offset = 0; offset + sizeof(Elf64_Sym) <= table->sh_size; offset += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(file, table->sh_offset + offset);
      if (!symbol) return std::nullopt;
      if (symbol->st_size != 4 || !is_named(file, names->sh_offset + symbol->st_name, name)) continue;
      const auto where = offset_of(file, *header, symbol->st_value);
      return where ? at<std::uint32_t>(file, *where) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> plugin_version(const std::string& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream ? std::streamoff{stream.tellg()} : -1;
  if (size < 0 || size > kMostBytes) return std::nullopt;
  std::string file(static_cast<std::size_t>(size), '\0');
  stream.seekg(0);
  stream.read(file.data(), static_cast<std::streamsize>(file.size()));
  file.resize(static_cast<std::size_t>(stream.gcount()));
  return value_of(file, "plugin_version");
}

}  // namespace espalier::cli::doctor
