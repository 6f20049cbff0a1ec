#include <elf.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "planner/cli/doctor/gather.hpp"
#include "planner/core/error.hpp"
#include "tests/unit/doctor_cases.hpp"

using namespace espalier::cli::doctor;
using namespace espalier::cli::doctor::cases;

namespace {

constexpr const char* kStack = "/etc/slurm/plugstack.conf";
constexpr const char* kLine = "/etc/slurm/plugstack.conf:3";

template <class Break>
Finding broken(const char* check, Break breaks) {
  return after(check, [&](Facts& facts, Slurm&) { breaks(*facts.plugins.value); });
}

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("espalier-doctor-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// The smallest shared object with a symbol plugin_version. Its data lie at file offset 0x400, address 0x10400.
std::string plugin_file(std::uint32_t version) {
  constexpr std::uint64_t kAddress = 0x10000, kNames = 0x200, kSymbols = 0x300, kData = 0x400, kSections = 0x500;
  std::string file(0x600, '\0');
  const auto put = [&](std::uint64_t at, const void* bytes, std::size_t size) {
    std::memcpy(file.data() + at, bytes, size);
  };
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof header;
  header.e_phnum = 1;
  header.e_shoff = kSections;
  header.e_shnum = 3;
  put(0, &header, sizeof header);
  Elf64_Phdr segment{};
  segment.p_type = PT_LOAD;
  segment.p_vaddr = kAddress;
  segment.p_filesz = file.size();
  put(header.e_phoff, &segment, sizeof segment);
  const char names[] = "\0other\0plugin_version";
  put(kNames, names, sizeof names);
  Elf64_Sym symbols[3]{};
  symbols[1].st_name = 1;
  symbols[1].st_size = 4;
  symbols[2].st_name = 7;
  symbols[2].st_size = 4;
  symbols[2].st_value = kAddress + kData;
  put(kSymbols, symbols, sizeof symbols);
  put(kData, &version, sizeof version);
  Elf64_Shdr sections[3]{};
  sections[1].sh_type = SHT_DYNSYM;
  sections[1].sh_offset = kSymbols;
  sections[1].sh_size = sizeof symbols;
  sections[1].sh_link = 2;
  sections[2].sh_type = SHT_STRTAB;
  sections[2].sh_offset = kNames;
  put(kSections, sections, sizeof sections);
  return file;
}

}  // namespace

TEST_CASE("doctor: plugstack.conf that does not name the plugin, names it twice, or requires it") {
  const Finding absent = broken("plugstack", [](Plugins& p) { p.spank.clear(); });
  CHECK(absent.verdict == Verdict::fault);
  CHECK(advises(absent, kStack,
                "optional /opt/espalier/lib/slurm/espalier.so planner=ctl max=64 "
                "launcher=/opt/espalier/bin/espalier-launch report=/opt/espalier/sbin/espalier-report"));
  const Finding twice = broken("plugstack", [](Plugins& p) { p.spank.push_back(p.spank[0]); });
  CHECK(twice.verdict == Verdict::fault);
  const Finding required = broken("plugstack", [](Plugins& p) { p.spank[0].required = true; });
  CHECK(required.verdict == Verdict::warning);
  CHECK(advises(required, kLine, "optional", "espalier.so"));
}

TEST_CASE("doctor: plugins that are missing or were built for another Slurm") {
  CHECK(broken("spank-plugin", [](Plugins& p) { p.spank[0].plugin.exists = false; }).verdict == Verdict::fault);
  CHECK(broken("spank-plugin", [](Plugins& p) { p.spank[0].plugin.built_for.reset(); }).verdict == Verdict::fault);
  const Finding old = broken("spank-plugin", [](Plugins& p) { p.spank[0].plugin.built_for = 0x150808; });
  CHECK(old.verdict == Verdict::fault);
  CHECK(says(old, "built for Slurm 21.08.8, this is 22.05.8"));
  // SPANK's must be of the same release, job_submit's of the same micro release.
  CHECK(broken("spank-plugin", [](Plugins& p) { p.spank[0].plugin.built_for = 0x160501; }).verdict == Verdict::ok);
  CHECK(broken("submit-plugin", [](Plugins& p) { p.submit.built_for = 0x160507; }).verdict == Verdict::fault);
  const Finding gone = broken("submit-plugin", [](Plugins& p) { p.submit = {}; });
  CHECK(gone.verdict == Verdict::fault);
  CHECK(advises(gone, kSlurmConf, "PluginDir=/opt/espalier/lib/slurm:/opt/espalier/lib/slurm:/usr/lib/slurm"));
}

TEST_CASE("doctor: JobSubmitPlugins without espalier keeps what it has") {
  const auto with = [](const char* plugins) {
    return after("job-submit", [&](Facts&, Slurm& slurm) { slurm.settings["JobSubmitPlugins"] = plugins; });
  };
  CHECK(with("lua").verdict == Verdict::warning);
  CHECK(advises(with("lua"), kSlurmConf, "JobSubmitPlugins=lua,espalier"));
  CHECK(advises(with("(null)"), kSlurmConf, "JobSubmitPlugins=espalier"));
  CHECK(with("espalier_old").verdict == Verdict::warning);
  const Finding unused = after("submit-plugin", [](Facts& facts, Slurm& slurm) {
    slurm.settings["JobSubmitPlugins"] = "lua";
    facts.plugins.value->submit = {};
  });
  CHECK(unused.verdict == Verdict::skipped);
}

TEST_CASE("doctor: the words of the plugin's line") {
  const auto words = [](std::vector<std::string> list) {
    return [list](Plugins& plugins) { plugins.spank[0].arguments = list; };
  };
  CHECK(broken("spank-planner", words({"max=64"})).verdict == Verdict::fault);
  CHECK(advises(broken("spank-planner", words({"max=64"})), kLine, "planner=ctl", "espalier.so"));
  CHECK(broken("spank-planner", words({"planner=localhost"})).verdict == Verdict::fault);
  CHECK(says(broken("spank-planner", words({"planner=ctl:7000"})), "port 7000, espalierd's is 7321"));
  CHECK(broken("spank-planner", words({"planner=ctl:7321"})).verdict == Verdict::ok);
  CHECK(broken("spank-planner", words({"planner=[fd00::1]:7321"})).verdict == Verdict::ok);
  CHECK(broken("spank-planner", words({"planner=fd00::1"})).verdict == Verdict::ok);
  CHECK(advises(broken("spank-limit", words({"planner=ctl", "max=8"})), kLine, "max=64", "espalier.so"));
  CHECK(broken("spank-limit", words({})).verdict == Verdict::ok);
}

TEST_CASE("doctor: a launcher that is not there matters where it runs, or where no host has it") {
  const auto at = [](const char* host, const char* launcher) {
    return after("launcher", [&](Facts& facts, Slurm&) {
      facts.host = host;
      facts.plugins.value->launcher_there = false;
      facts.plugins.value->spank[0].arguments = {std::string("launcher=") + launcher};
    });
  };
  CHECK(at("ctl", "/opt/espalier/bin/espalier-launch").verdict == Verdict::skipped);
  CHECK(at("n1", "/opt/espalier/bin/espalier-launch").verdict == Verdict::fault);
  CHECK(at("ctl", "/opt/elsewhere/espalier-launch").verdict == Verdict::fault);
  CHECK(advises(at("n1", "/x"), kLine, "launcher=/opt/espalier/bin/espalier-launch", "espalier.so"));
}

TEST_CASE("doctor: a site with pyxis") {
  const PlugstackLine pyxis{kStack, 4, false, {}, {"/usr/lib/slurm/spank_pyxis.so", true, std::nullopt}};
  const auto with = [&](bool there, const char* tracking) {
    return after("containers", [&](Facts& facts, Slurm& slurm) {
      facts.plugins.value->pyxis = {pyxis};
      facts.plugins.value->pyxis[0].plugin.exists = there;
      slurm.settings["ProctrackType"] = tracking;
    });
  };
  CHECK(with(true, "proctrack/cgroup").verdict == Verdict::ok);
  CHECK(with(true, "proctrack/linuxproc").verdict == Verdict::warning);
  CHECK(says(with(true, "proctrack/linuxproc"), "notice of a preemption"));
  CHECK(with(false, "proctrack/cgroup").verdict == Verdict::fault);
  CHECK(says(with(false, "proctrack/cgroup"), "plugstack.conf:4"));
  CHECK(says(after("containers", [](Facts&, Slurm&) {}), "outside of containers"));
}

TEST_CASE("doctor: srun that does not know the option") {
  CHECK(after("elastic-option", [](Facts& f, Slurm&) { f.srun_knows_elastic = false; }).verdict == Verdict::fault);
  const auto mute = [](Facts& f, Slurm&) {
    f.srun_knows_elastic = Learned<bool>::unknown("srun no answer within 20 s");
  };
  CHECK(says(after("elastic-option", mute), "no answer within 20 s"));
}

TEST_CASE("doctor reads plugstack.conf with its includes, comments and words") {
  const Folder folder;
  const std::string plugin = folder.write("espalier.so", plugin_file(0x160508));
  folder.write("other.conf", "# optional espalier.so\nrequired other.so\n");
  const std::string inner = folder.write("espalier.conf", "\n  optional   espalier.so planner=ctl  max=8 # all\n");
  const std::string outer =
      folder.write("plugstack.conf", "include " + folder.path() + "/o*.conf\ninclude espalier.conf\n");
  const auto lines = read_plugstack(outer, "espalier.so", "/nowhere:" + folder.path());
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].file == inner);
  CHECK(lines[0].line == 2);
  CHECK(!lines[0].required);
  CHECK(lines[0].arguments == std::vector<std::string>{"planner=ctl", "max=8"});
  CHECK(lines[0].plugin.path == plugin);
  CHECK(lines[0].plugin.built_for == 0x160508);
  const std::string loop = folder.write("loop.conf", "include loop.conf\nrequired /no/espalier.so\n");
  CHECK(!read_plugstack(loop, "espalier.so", "").empty());
  CHECK_THROWS_AS(read_plugstack(folder.path() + "/none.conf", "espalier.so", ""), espalier::Error);
}

TEST_CASE("doctor reads a plugin's version from its file, and no byte beyond the file") {
  const Folder folder;
  const std::string whole = plugin_file(0x190503);
  CHECK(plugin_version(folder.write("whole.so", whole)) == 0x190503);
  CHECK(!plugin_version(folder.path() + "/none.so"));
  CHECK(!plugin_version(folder.write("text.so", "#!/bin/sh\n")));
  for (std::size_t size = 0; size < whole.size(); size += 8)
    plugin_version(folder.write("cut.so", whole.substr(0, size)));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = '\xff';
    plugin_version(folder.write("damaged.so", damaged));
  }
}
