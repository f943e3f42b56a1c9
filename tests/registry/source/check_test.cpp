// SPDX-License-Identifier: Apache-2.0
#include "registry/source/check.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "registry/manifest/name_table.hpp"
#include "registry/source/file_source.hpp"

namespace meshdns::registry {
namespace {

class CheckTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "meshdns-check-" + std::to_string(getpid());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = directory_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string check(const std::string& name, Checker::Reader reader = read_manifest,
                    Strictness strictness = Strictness::Usual) {
    std::string out;
    Checker checker(strictness, [&](const Finding& finding) {
      std::string line = finding.to_string();
      line.erase(0, line.starts_with(directory_ + "/") ? directory_.size() + 1 : 0);
      out += line + "\n";
    });
    checker.check(directory_ + name, reader);
    summary_ = checker.summary();
    return out;
  }

  std::string directory_;
  CheckSummary summary_;
};

std::string headless_service(const std::string& name) {
  return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {clusterIP: None}\n";
}

TEST_F(CheckTest, WalksDirectoriesInOrder) {
  write("a.yaml", headless_service("a"));
  write("b/c.yml", headless_service("c") + "---\n" + headless_service("d") + "---\n" +
                       headless_service("Bad"));
  write("b/d.json", R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"},"x":1})");
  write("b/.hidden.yaml", "nonsense");
  write(".data/e.yaml", "nonsense");
  write("notes.txt", "nonsense");
  EXPECT_EQ(check(""),
            "b/c.yml:13: error: Service default/Bad: metadata.name: \"Bad\" is not a name of 1 "
            "to 63 lower-case letters, digits and inner hyphens\n"
            "b/d.json:1: warning: Namespace n: x: unknown field\n");
  EXPECT_EQ(summary_.to_string(), "5 resources, 1 error, 1 warning");
  EXPECT_EQ(summary_.exit_status(), 1);
}

TEST_F(CheckTest, GoodFilesExitWithZero) {
  write("a.txt", headless_service("a"));
  EXPECT_EQ(check("/a.txt"), "") << "a file that is named is read whatever its name";
  EXPECT_EQ(summary_.to_string(), "1 resource, 0 errors, 0 warnings");
  EXPECT_EQ(summary_.exit_status(), 0);
}

TEST_F(CheckTest, SameObjectInTwoFilesIsAWarning) {
  write("a.yaml", headless_service("a"));
  write("b.yaml", "# twice\n" + headless_service("a"));
  EXPECT_EQ(check(""), "b.yaml:2: warning: Service default/a: also defined at " + directory_ +
                           "/a.yaml:1; only one of them is used\n");
  EXPECT_EQ(summary_.exit_status(), 0);
}

TEST_F(CheckTest, SameObjectInTwoClustersIsNone) {
  write("east/a.yaml", headless_service("a"));
  write("west/a.yaml", headless_service("a"));
  std::string said;
  std::string clusters;
  Checker checker(Strictness::Usual, [&](const Finding& finding) { said += finding.to_string(); });
  checker.set_resource_listener([&](const Resource& resource, const auto&, std::uint32_t) {
    clusters += meta_of(resource).cluster + " " + meta_of(resource).network + " ";
  });
  for (const std::string cluster : {"east", "west"}) {
    ManifestOptions source;
    source.cluster = cluster;
    source.network = "net-" + cluster;
    checker.check(directory_ + "/" + cluster, read_manifest, source);
  }
  EXPECT_EQ(said, "");
  EXPECT_EQ(clusters, "east net-east west net-west ");
}

TEST_F(CheckTest, UnreadableFilesExitWithTwo) {
  EXPECT_EQ(check("/absent.yaml"),
            "absent.yaml: error: cannot be read: No such file or directory\n");
  EXPECT_EQ(summary_.exit_status(), 2);
  ASSERT_EQ(mkfifo((directory_ + "/pipe.yaml").c_str(), 0600), 0);
  EXPECT_EQ(check("/pipe.yaml"),
            "pipe.yaml: error: cannot be read: neither a file nor a directory\n");
  EXPECT_EQ(summary_.exit_status(), 2);
}

TEST_F(CheckTest, EndsOnCircularLinks) {
  write("a/a.yaml", headless_service("a"));
  write("b/b.yaml", headless_service("b"));
  const auto link = [&](const std::string& to, const std::string& name) {
    std::filesystem::create_directory_symlink(to, directory_ + "/" + name);
  };
  link(".", "here");
  link(".", "here-again");
  link(directory_, "a/root");
  link("../b", "a/other");
  link("../a", "b/other");
  link("..", "parent");
  link(std::filesystem::path(directory_).parent_path(), "b/parent");
  EXPECT_EQ(check(""), "");
  EXPECT_EQ(summary_.to_string(), "2 resources, 0 errors, 0 warnings");
  EXPECT_EQ(summary_.exit_status(), 0);
}

TEST_F(CheckTest, ReadsWhatLinksLeadToOnce) {
  write("a.yaml", headless_service("a"));
  std::filesystem::create_symlink("a.yaml", directory_ + "/b.yaml");
  EXPECT_EQ(check(""), "");
  EXPECT_EQ(summary_.resources, 1U);
}

TEST_F(CheckTest, ALinkThatLeadsNowhereExitsWithTwo) {
  write("a.yaml", headless_service("a"));
  std::filesystem::create_symlink("b.yaml", directory_ + "/b.yaml");
  std::filesystem::create_symlink("absent", directory_ + "/c.yaml");
  std::filesystem::create_symlink("absent", directory_ + "/notes");
  EXPECT_EQ(check(""),
            "b.yaml: error: the symbolic link has no target: Too many levels of symbolic links\n"
            "c.yaml: error: the symbolic link has no target: No such file or directory\n");
  EXPECT_EQ(summary_.to_string(), "1 resource, 2 errors, 0 warnings");
  EXPECT_EQ(summary_.exit_status(), 2);
}

TEST_F(CheckTest, ADirectoryWithoutManifestsIsAWarning) {
  EXPECT_EQ(check(""), directory_ + ": warning: holds no file named *.yaml, *.yml or *.json\n");
  EXPECT_EQ(summary_.exit_status(), 0);
  write(".hidden.yaml", headless_service("a"));
  write("notes.txt", "nonsense");
  check("");
  EXPECT_EQ(summary_.to_string(), "0 resources, 0 errors, 1 warning");
}

TEST_F(CheckTest, MoreDirectoriesThanASourceReadsAreAWarning) {
  const std::size_t max = FileSourceOptions().max_directories;
  for (std::size_t i = 0; i < max; ++i)
    std::filesystem::create_directories(directory_ + "/d" + std::to_string(i));
  write("z/a.yaml", headless_service("Bad"));
  const std::string said = check("");
  EXPECT_NE(said.find("z/a.yaml:3: error: "), std::string::npos) << "all of them are checked";
  EXPECT_NE(said.find("warning: holds 8194 directories; a source reads only 8192 of them"),
            std::string::npos)
      << said;
}

TEST_F(CheckTest, StrictMakesWarningsErrors) {
  write("a.yaml", headless_service("a") + "x: 1\n");
  EXPECT_EQ(check("", read_manifest, Strictness::WarningsAreErrors),
            "a.yaml:5: error: Service default/a: x: unknown field\n");
  EXPECT_EQ(summary_.to_string(), "1 resource, 1 error, 0 warnings");
  EXPECT_EQ(summary_.exit_status(), 1);
}

std::string service_of(const std::string& spec) {
  return "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {" + spec + "}\n";
}

TEST_F(CheckTest, AServiceWithoutAnAddressLooksLikeAManifest) {
  const std::string warning =
      "a.yaml:1: warning: Service default/a: spec.clusterIP: no clusterIP: this looks like a "
      "manifest, not an object read from a cluster; the Service has no address to answer\n";
  for (const char* spec : {"ports: [{port: 80}]", "clusterIP: \"\"", "type: LoadBalancer",
                           "type: NodePort", "clusterIPs: []"}) {
    write("a.yaml", service_of(spec));
    EXPECT_EQ(check(""), warning) << spec;
  }
  for (const char* spec :
       {"clusterIP: None", "clusterIPs: [None]", "clusterIP: 10.96.0.1", "clusterIPs: [fd00::]",
        "type: ExternalName, externalName: a.example.org"}) {
    write("a.yaml", service_of(spec));
    EXPECT_EQ(check(""), "") << spec;
  }
}

std::string entry_of(const std::string& spec) {
  return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: a}\nspec: {" +
         spec + "}\n";
}

TEST_F(CheckTest, SpecialUseNamesAreNeverAnswered) {
  const std::string start = "a.yaml:1: warning: ServiceEntry default/a: ";
  write("a.yaml", entry_of("hosts: [a.example.org, api.localhost], resolution: STATIC"));
  EXPECT_EQ(check(""), start +
                           "spec.hosts[1]: \"api.localhost\" is never answered from here: "
                           "localhost always means this host (RFC 6761)\n");
  for (const char* host : {"onion", "x.onion", "\"*.onion\"", "a.b.alt", "x.invalid", "\"*.x.alt\"",
                           "localhost", "X.ONION."}) {
    write("a.yaml", entry_of("hosts: [" + std::string(host) + "], resolution: STATIC"));
    EXPECT_TRUE(check("").starts_with(start + "spec.hosts[0]: ")) << host;
  }
  for (const char* host : {"onion.example.org", "salt", "basalt.org", "localhosts", "myonion"}) {
    write("a.yaml", entry_of("hosts: [" + std::string(host) + "], resolution: STATIC"));
    EXPECT_EQ(check(""), "") << host;
  }
}

TEST_F(CheckTest, SpecialUseNamesAreNeverResolved) {
  write("a.yaml",
        entry_of("hosts: [a.example.org], resolution: DNS, endpoints: [{address: x.onion}]"));
  EXPECT_EQ(check(""),
            "a.yaml:1: warning: ServiceEntry default/a: spec.endpoints[0].address: \"x.onion\" can "
            "never be resolved: onion is a special-use name\n");
  write("a.yaml", service_of("type: ExternalName, externalName: a.invalid"));
  EXPECT_EQ(check(""),
            "a.yaml:1: warning: Service default/a: spec.externalName: \"a.invalid\" can never be "
            "resolved: invalid is a special-use name\n");
}

TEST_F(CheckTest, SpecialUseNamesOfANameTableAreNeverAnswered) {
  write(
      "ndsz.json",
      R"({"table": {"a.onion": {"ips": ["10.0.0.1"]}, "b.example.org": {"altHosts": ["b.alt"]}}})");
  EXPECT_EQ(check("/ndsz.json", read_name_table),
            "ndsz.json:1: warning: NameTableEntry a.onion: \"a.onion\" is never answered "
            "from here: onion is a special-use name, which does not exist in DNS\n"
            "ndsz.json:1: warning: NameTableEntry b.example.org: altHosts[0]: \"b.alt\" is never "
            "answered from here: alt is a special-use name, which does not exist in DNS\n");
}

TEST_F(CheckTest, UsesTheGivenReader) {
  write("ndsz.json", R"({"table": {"a.example.org": {"ips": ["10.0.0.1"]}}})");
  EXPECT_EQ(check("/ndsz.json", read_name_table), "");
  EXPECT_EQ(summary_.to_string(), "1 resource, 0 errors, 0 warnings");
}

}  // namespace
}  // namespace meshdns::registry
