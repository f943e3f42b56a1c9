// SPDX-License-Identifier: Apache-2.0
#include "registry/source/file_source.hpp"

#include <condition_variable>
#include <mutex>

#include "tests/registry/source/file_source_fixture.hpp"

namespace meshdns::registry {
namespace {

TEST_F(FileSourceTest, ReadsATreeByItsVisibleNames) {
  fs::create_directories(dir_ / "shop" / "deep");
  fs::create_directories(dir_ / ".git");
  write(dir_ / "a.yaml", "api\n");
  write(dir_ / "shop" / "b.yml", "web\n");
  write(dir_ / "shop" / "deep" / "c.json", "db\n");
  write(dir_ / "README.md", "no\n");
  write(dir_ / ".hidden.yaml", "no\n");
  write(dir_ / ".git" / "x.yaml", "no\n");
  write(dir_ / ".yaml", "no\n");
  open();
  EXPECT_EQ(registry_.print(), "a.yaml: api | shop/b.yml: web | shop/deep/c.json: db");
  EXPECT_EQ(source_->status().origins, 3u);
}

TEST_F(FileSourceTest, ASingleFileMayHaveAnyName) {
  write(base_ / "table", "api\n");
  open_at(base_ / "table");
  EXPECT_EQ(registry_.origins.begin()->first, (base_ / "table").string());
  rename_over(base_ / "table", "web\n");
  EXPECT_TRUE(run_until([&] { return registry_.print().ends_with(": web"); }));
}

TEST_F(FileSourceTest, AnEmptyDirectoryIsComplete) {
  open();
  EXPECT_EQ(registry_.print(), "");
  write(dir_ / "a.yaml", "api\n");
  EXPECT_TRUE(becomes("a.yaml: api"));
}

// Only the old text or the new one is served, however an editor replaces the file.
TEST_F(FileSourceTest, EditorsLeaveNothingBetweenOldAndNew) {
  struct Case {
    const char* name;
    std::function<void(const fs::path& file, const std::string& text)> edit;
  };
  const Case cases[] = {
      {"writes in place", [](const auto& file, const auto& text) { write(file, text); }},
      {"renames over it", [](const auto& file, const auto& text) { rename_over(file, text); }},
      {"vim: renames the old one away, writes anew, deletes the old one",
       [](const auto& file, const auto& text) {
         fs::rename(file, file.string() + "~");
         write(file, text);
         fs::remove(file.string() + "~");
       }},
      {"deletes, pauses and writes anew",
       [](const auto& file, const auto& text) {
         fs::remove(file);
         std::this_thread::sleep_for(milliseconds{120});
         write(file, text);
       }},
      {"truncates, pauses, writes",
       [](const auto& file, const auto& text) {
         std::ofstream out(file, std::ios::trunc);
         out.flush();
         std::this_thread::sleep_for(milliseconds{300});
         out << text;
       }},
      {"truncates and writes slowly",
       [](const auto& file, const auto& text) {
         std::ofstream out(file, std::ios::trunc);
         for (const char c : text) {
           out << c << std::flush;
           std::this_thread::sleep_for(milliseconds{60});
         }
       }},
      {"leaves a lock and a copy beside it (emacs)",
       [](const auto& file, const auto& text) {
         const auto lock = file.parent_path() / (".#" + file.filename().string());
         fs::create_symlink("someone@somewhere.1", lock);
         write(file.parent_path() / ("#" + file.filename().string() + "#"), text);
         rename_over(file, text);
         fs::remove(lock);
       }},
      {"replaces it by a link",
       [](const auto& file, const auto& text) {
         const auto target = file.parent_path() / ("." + text.substr(0, text.find('\n')));
         write(target, text);
         swap_link(file, target.filename());
       }},
  };
  write(dir_ / "a.yaml", "v0\nw0\n");
  open_patiently();
  int version = 0;
  for (const Case& test : cases) {
    const std::string before = registry_.print();
    ++version;
    const std::string v = std::to_string(version);
    std::string text = "v";
    text.append(v).append("\nw").append(v).append("\n");
    registry_.history.clear();
    std::thread editor([&] { test.edit(dir_ / "a.yaml", text); });
    std::string after = "a.yaml: v";
    after.append(v).append(" w").append(v);
    EXPECT_TRUE(becomes(after)) << test.name;
    editor.join();
    run_for(milliseconds{450});
    for (const std::string& state : registry_.history)
      EXPECT_TRUE(state == before || state == after) << test.name << ": " << state;
    EXPECT_EQ(registry_.print(), after) << test.name;
    fs::remove(dir_ / "#a.yaml#");
  }
}

// An earlier run knew a, b, c and d; what has become of them meanwhile is told by the first round.
TEST_F(FileSourceTest, FilesOfAnEarlierRunKeepTheirStateUnlessTheySayOtherwise) {
  write(dir_ / "a.yaml", "changed\n");
  write(dir_ / "b.yaml", "new\nbroken\n");
  write(dir_ / "c.yaml", "");
  FileSourceOptions restored = options(dir_);
  registry_.root = restored.path + "/";
  for (const char* name : {"a.yaml", "b.yaml", "c.yaml", "d.yaml"}) {
    restored.restored.insert((dir_ / name).string());
    registry_.hold((dir_ / name).string(), {Kind::Namespace, "", "", "old"}, "old");
  }
  open(std::move(restored));
  ASSERT_TRUE(run_until([this] { return registry_.complete; }));
  EXPECT_EQ(registry_.print(), "a.yaml: changed | b.yaml: old | c.yaml: old")
      << "d.yaml is gone by the time that the source is complete";
  rename_over(dir_ / "b.yaml", "new\n");
  EXPECT_TRUE(becomes("a.yaml: changed | b.yaml: new | c.yaml: old"));
}

TEST_F(FileSourceTest, FilesOfAnEarlierRunThatCannotBeReadAreSaidToBeThere) {
  fs::create_directory(dir_ / "deep");
  fs::create_symlink("nowhere", dir_ / "a.yaml");
  FileSourceOptions restored = options(dir_);
  registry_.root = restored.path + "/";
  restored.max_depth = 0;
  for (const char* name : {"a.yaml", "deep/b.yaml"}) {
    restored.restored.insert((dir_ / name).string());
    registry_.hold((dir_ / name).string(), {Kind::Namespace, "", "", "old"}, "old");
  }
  std::set<std::string> mentioned;
  registry_.on_change = [&](const OriginChange& change) { mentioned.insert(change.origin); };
  open(std::move(restored));
  ASSERT_TRUE(run_until([this] { return registry_.complete; }));
  EXPECT_EQ(registry_.print(), "a.yaml: old | deep/b.yaml: old");
  EXPECT_TRUE(mentioned.contains((dir_ / "a.yaml").string()));
  EXPECT_TRUE(mentioned.contains((dir_ / "deep/b.yaml").string()));
}

TEST_F(FileSourceTest, ADeletedFileTakesItsObjectsAway) {
  write(dir_ / "a.yaml", "api\n");
  write(dir_ / "b.yaml", "web\n");
  open();
  fs::remove(dir_ / "a.yaml");
  EXPECT_TRUE(becomes("b.yaml: web"));
}

TEST_F(FileSourceTest, ADeletedDirectoryTakesItsObjectsAway) {
  fs::create_directory(dir_ / "shop");
  write(dir_ / "shop" / "a.yaml", "api\n");
  write(dir_ / "b.yaml", "web\n");
  open();
  fs::remove_all(dir_ / "shop");
  EXPECT_TRUE(becomes("b.yaml: web"));
}

TEST_F(FileSourceTest, AMovedFileMovesInOneTransaction) {
  write(dir_ / "a.yaml", "api\n");
  open();
  registry_.history.clear();
  fs::rename(dir_ / "a.yaml", dir_ / "b.yaml");
  EXPECT_TRUE(becomes("b.yaml: api"));
  EXPECT_THAT(registry_.history, ElementsAre("b.yaml: api"));
}

TEST_F(FileSourceTest, NewDirectoriesAreFollowed) {
  open();
  fs::create_directories(dir_ / "x" / "y" / "z");
  write(dir_ / "x" / "y" / "z" / "a.yaml", "api\n");
  EXPECT_TRUE(becomes("x/y/z/a.yaml: api"));
  write(dir_ / "x" / "y" / "z" / "a.yaml", "web\n");
  EXPECT_TRUE(becomes("x/y/z/a.yaml: web"));
}

TEST_F(FileSourceTest, ARecreatedDirectoryIsFollowedWithoutAGap) {
  fs::create_directory(dir_ / "shop");
  write(dir_ / "shop" / "a.yaml", "v0\n");
  open_patiently();
  for (int i = 1; i <= 10; ++i) {
    registry_.history.clear();
    fs::remove_all(dir_ / "shop");
    run_for(milliseconds{i * 15});
    fs::create_directory(dir_ / "shop");
    std::string name = "v";
    name.append(std::to_string(i));
    write(dir_ / "shop" / "a.yaml", name + "\n");
    EXPECT_TRUE(becomes("shop/a.yaml: " + name));
    EXPECT_THAT(registry_.history, testing::Not(testing::Contains("")));
  }
}

TEST_F(FileSourceTest, APathThatDisappearsKeepsItsStateUntilItIsBack) {
  write(dir_ / "a.yaml", "api\n");
  write(dir_ / "b.yaml", "web\n");
  open_patiently();
  fs::remove_all(dir_);
  ASSERT_TRUE(run_until([&] { return registry_.findings.contains(dir_.string()); }));
  EXPECT_THAT(registry_.findings[dir_.string()][0].message, HasSubstr("does not exist"));
  run_for(milliseconds{600});
  EXPECT_EQ(registry_.print(), "a.yaml: api | b.yaml: web");
  EXPECT_FALSE(source_->status().last_error.empty());

  registry_.history.clear();
  fs::create_directory(dir_);
  run_for(milliseconds{300});  // whoever fills it takes his time
  write(dir_ / "a.yaml", "api2\n");
  EXPECT_TRUE(becomes("a.yaml: api2"));
  EXPECT_THAT(registry_.history, testing::Not(testing::Contains("")));
  EXPECT_FALSE(registry_.findings.contains(dir_.string()));
  EXPECT_TRUE(source_->status().last_error.empty());
}

TEST_F(FileSourceTest, ParentsMayDisappearToo) {
  const fs::path deep = base_ / "p" / "q" / "r";
  fs::create_directories(deep);
  write(deep / "a.yaml", "v0\n");
  open_at(deep);
  for (const char* name : {"v1", "v2", "v3"}) {
    fs::remove_all(base_ / "p");
    run_for(milliseconds{150});
    EXPECT_THAT(registry_.print(), HasSubstr("a.yaml: v"));
    fs::create_directories(deep);
    write(deep / "a.yaml", std::string(name) + "\n");
    EXPECT_TRUE(becomes(std::string("a.yaml: ") + name));
  }
}

TEST_F(FileSourceTest, APathThatWasNeverThereIsIncompleteUntilItComes) {
  const fs::path late = base_ / "late";
  open(options(late));
  EXPECT_TRUE(run_until([&] { return registry_.findings.contains(late.string()); }));
  EXPECT_FALSE(registry_.complete);
  fs::create_directory(late);
  write(late / "a.yaml", "api\n");
  EXPECT_TRUE(becomes("a.yaml: api"));
  EXPECT_TRUE(registry_.complete);
  EXPECT_FALSE(registry_.findings.contains(late.string()));
}

TEST_F(FileSourceTest, ABrokenTextKeepsTheFilesWholeState) {
  write(dir_ / "a.yaml", "api\nweb\n");
  write(dir_ / "b.yaml", "db\n");
  open();
  write(dir_ / "a.yaml", "new\nbroken\nweb\n");
  write(dir_ / "b.yaml", "db2\n");
  EXPECT_TRUE(complains("a.yaml", "no sense in this"));
  EXPECT_TRUE(becomes("a.yaml: api web | b.yaml: db2"));
  EXPECT_EQ(source_->status().broken, 1u);
  write(dir_ / "a.yaml", "new\nweb\n");
  EXPECT_TRUE(becomes("a.yaml: new web | b.yaml: db2"));
  EXPECT_THAT(registry_.findings, IsEmpty());
  EXPECT_EQ(source_->status().broken, 0u);
}

TEST_F(FileSourceTest, ATextThatWasAlwaysBrokenGivesWhatStandsBeforeTheError) {
  write(dir_ / "a.yaml", "api\nbroken\nweb\n");
  open();
  EXPECT_EQ(registry_.print(), "a.yaml: api");
  EXPECT_THAT(registry_.findings_of("a.yaml"), HasSubstr("no sense in this"));
}

TEST_F(FileSourceTest, FindingsOfAFileAreCountedWhereTheyAreTooMany) {
  std::string text;
  for (int i = 0; i < 1'500; ++i) text += "refuse a" + std::to_string(i) + "\n";
  write(dir_ / "a.yaml", text + "good\n");
  open();
  EXPECT_EQ(registry_.print(), "a.yaml: good");
  const auto& findings = registry_.findings[registry_.root + "a.yaml"];
  ASSERT_EQ(findings.size(), 1'001U);
  EXPECT_EQ(findings.back().message, "and 500 more findings");
}

TEST_F(FileSourceTest, ARefusedObjectKeepsItsLastGoodVersion) {
  write(dir_ / "a.yaml", "api\nweb\n");
  open();
  write(dir_ / "a.yaml", "refuse api\nrefuse never-seen\nnew\n");
  EXPECT_TRUE(becomes("a.yaml: api new"));
  EXPECT_TRUE(complains("a.yaml", "refused"));
  write(dir_ / "a.yaml", "new\n");
  EXPECT_TRUE(becomes("a.yaml: new"));
  EXPECT_THAT(registry_.findings, IsEmpty());
}

TEST_F(FileSourceTest, AnEmptiedFileKeepsItsStateAndACommentTakesItAway) {
  write(dir_ / "a.yaml", "api\n");
  open();
  write(dir_ / "a.yaml", "\n \n");
  EXPECT_TRUE(complains("a.yaml", "has become empty"));
  EXPECT_EQ(registry_.print(), "a.yaml: api");
  write(dir_ / "a.yaml", "# nothing\n");
  EXPECT_TRUE(becomes("a.yaml:"));
  EXPECT_THAT(registry_.findings, IsEmpty());
}

TEST_F(FileSourceTest, ALinkThatLeadsNowhereKeepsTheState) {
  write(base_ / "real.yaml", "api\n");
  fs::create_symlink("../real.yaml", dir_ / "a.yaml");
  open();
  EXPECT_EQ(registry_.print(), "a.yaml: api");
  fs::remove(base_ / "real.yaml");
  EXPECT_TRUE(complains("a.yaml", "has no target"));
  EXPECT_EQ(registry_.print(), "a.yaml: api");
  write(base_ / "real.yaml", "api\n");  // the very same text
  EXPECT_TRUE(run_until([&] { return registry_.findings.empty(); }));
  write(base_ / "real.yaml", "web\n");
  EXPECT_TRUE(becomes("a.yaml: web"));
}

// As root everything is readable; the threads of the pool follow seteuid.
TEST_F(FileSourceTest, ReportsForbiddenFilesAndServesTheRest) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  fs::permissions(base_, fs::perms(0755));
  fs::create_directory(dir_ / "shop");
  write(dir_ / "a.yaml", "api\n");
  write(dir_ / "b.yaml", "web\n");
  write(dir_ / "shop" / "c.yaml", "db\n");
  open();
  ASSERT_EQ(seteuid(65'534), 0);
  const auto as_root = [](const std::function<void()>& change) {
    ASSERT_EQ(seteuid(0), 0);
    change();
    ASSERT_EQ(seteuid(65'534), 0);
  };
  as_root([&] {
    rename_over(dir_ / "a.yaml", "api2\n");
    fs::permissions(dir_ / "a.yaml", fs::perms::none);
    fs::permissions(dir_ / "shop", fs::perms::none);
    write(dir_ / "b.yaml", "web2\n");
  });
  EXPECT_TRUE(complains("shop", "Permission denied"));
  EXPECT_TRUE(complains("a.yaml", "Permission denied"));
  EXPECT_TRUE(becomes("a.yaml: api | b.yaml: web2 | shop/c.yaml: db"));
  as_root([&] {
    fs::permissions(dir_ / "a.yaml", fs::perms(0644));
    fs::permissions(dir_ / "shop", fs::perms(0755));
  });
  EXPECT_TRUE(becomes("a.yaml: api2 | b.yaml: web2 | shop/c.yaml: db"));
  EXPECT_TRUE(run_until([&] { return registry_.findings.empty(); }));
  ASSERT_EQ(seteuid(0), 0);
}

TEST_F(FileSourceTest, ReportsIrregularFilesWithoutBlocking) {
  ASSERT_EQ(mkfifo((dir_ / "a.yaml").c_str(), 0600), 0);
  write(dir_ / "b.yaml", "web\n");
  open();
  EXPECT_EQ(registry_.print(), "b.yaml: web");
  EXPECT_THAT(registry_.findings_of("a.yaml"), HasSubstr("is not a regular file"));
}

TEST_F(FileSourceTest, AFileBeyondTheLimitKeepsItsState) {
  write(dir_ / "a.yaml", "api\n");
  FileSourceOptions limited = options(dir_);
  limited.max_file_bytes = 1'000;
  open(limited);
  ASSERT_TRUE(becomes("a.yaml: api"));
  write(dir_ / "a.yaml", std::string(1'001, '#') + "\nweb\n");
  EXPECT_TRUE(complains("a.yaml", "is larger than"));
  EXPECT_EQ(registry_.print(), "a.yaml: api");
}

TEST_F(FileSourceTest, LimitsOfTheTreeAreSaid) {
  FileSourceOptions limited = options(dir_);
  limited.max_depth = 1;
  limited.max_files = 2;
  fs::create_directories(dir_ / "x" / "y");
  write(dir_ / "x" / "y" / "deep.yaml", "deep\n");
  for (const char* name : {"a.yaml", "b.yaml", "c.yaml"}) write(dir_ / name, "api\n");
  open(limited);
  EXPECT_TRUE(becomes("a.yaml: api | b.yaml: api"));
  EXPECT_THAT(registry_.findings_of("x/y"), HasSubstr("deeper"));
  EXPECT_THAT(registry_.findings[dir_.string()][0].message, HasSubstr("more than 2 files"));
}

TEST_F(FileSourceTest, MoreDirectoriesThanAllowedAreSaidOnce) {
  FileSourceOptions limited = options(dir_);
  limited.max_directories = 2;
  for (const char* name : {"x", "y", "z"}) {
    fs::create_directory(dir_ / name);
    write(dir_ / name / "a.yaml", std::string(name) + "\n");
  }
  open(limited);
  EXPECT_TRUE(becomes("x/a.yaml: x"));
  EXPECT_THAT(registry_.findings[dir_.string()][0].message,
              HasSubstr("more than 2 directories; those from " + (dir_ / "y").string() + " on"));
  EXPECT_THAT(registry_.findings_of("z"), IsEmpty());
}

TEST_F(FileSourceTest, OnlyWhatChangedIsReadAgain) {
  for (int i = 0; i < 1'000; ++i) {
    std::string name = "f";
    name.append(std::to_string(i));
    write(dir_ / (name + ".yaml"), name + "\n");
  }
  open();
  EXPECT_EQ(registry_.origins.size(), 1'000u);
  EXPECT_EQ(texts_read_, 1'000);
  write(dir_ / "f500.yaml", "changed\n");
  EXPECT_TRUE(
      run_until([&] { return registry_.print().find("f500.yaml: changed") != std::string::npos; }));
  EXPECT_EQ(texts_read_, 1'001);
  EXPECT_EQ(registry_.batches, 2);
}

TEST_F(FileSourceTest, TheSameTextWrittenAgainIsNoChange) {
  write(dir_ / "a.yaml", "api\n");
  open();
  const int batches = registry_.batches;
  const std::uint64_t reads = source_->status().reads;
  write(dir_ / "a.yaml", "api\n");
  rename_over(dir_ / "a.yaml", "api\n");
  EXPECT_TRUE(run_until([&] { return source_->status().reads > reads; }));
  run_for(milliseconds{300});
  EXPECT_EQ(registry_.batches, batches);
  EXPECT_EQ(texts_read_, 1);
}

TEST_F(FileSourceTest, AStormOfChangesIsCoalesced) {
  write(dir_ / "a.yaml", "v0\n");
  open();
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 1; i <= 2'000; ++i) {
      std::string name = "v";
      name.append(std::to_string(i)).append("\n");
      rename_over(dir_ / "a.yaml", name);
    }
    done = true;
  });
  while (!done) uv_run(&loop_, UV_RUN_ONCE);
  writer.join();
  EXPECT_TRUE(becomes("a.yaml: v2000"));
  EXPECT_LT(texts_read_, 1'000);
}

TEST_F(FileSourceTest, AWriterWhoNeverClosesIsReadWhenHeIsQuiet) {
  write(dir_ / "a.yaml", "v0\n");
  FileSourceOptions quick = options(dir_);
  quick.writer_quiet = milliseconds{300};
  open(quick);
  ASSERT_TRUE(becomes("a.yaml: v0"));
  std::ofstream out(dir_ / "a.yaml", std::ios::trunc);
  out << "v1\n" << std::flush;
  run_for(milliseconds{150});
  EXPECT_EQ(registry_.print(), "a.yaml: v0");
  EXPECT_TRUE(becomes("a.yaml: v1"));
}

TEST_F(FileSourceTest, ANewFileIsReadWhenItsWriterClosesAndALinkToACompleteFileBefore) {
  write(dir_ / ".complete", "linked\n");
  write(dir_ / "old.yaml", "v0\n");
  FileSourceOptions patient = options(dir_);
  patient.writer_quiet = milliseconds{600'000};
  patient.new_name_quiet = milliseconds{600'000};
  open(patient);
  ASSERT_TRUE(becomes("old.yaml: v0"));
  fs::rename(dir_ / "old.yaml", dir_ / "old.yaml~");  // as vim does
  std::ofstream replaced(dir_ / "old.yaml");
  std::ofstream created(dir_ / "new.yaml");
  fs::create_hard_link(dir_ / ".complete", dir_ / "link.yaml");
  ASSERT_TRUE(becomes("link.yaml: linked | old.yaml: v0"));
  replaced << "half\n" << std::flush;
  created << "half\n" << std::flush;
  fs::permissions(dir_ / "old.yaml", fs::perms::owner_all);
  fs::permissions(dir_ / "new.yaml", fs::perms::owner_all);
  rename_over(dir_ / "wakes.yaml", "wakes\n");
  ASSERT_TRUE(becomes("link.yaml: linked | old.yaml: v0 | wakes.yaml: wakes"));
  replaced << "whole\n";
  replaced.close();
  created.close();
  EXPECT_TRUE(
      becomes("link.yaml: linked | new.yaml: half | old.yaml: half whole | wakes.yaml: wakes"));
}

TEST_F(FileSourceTest, AFileThatMovesInByALinkIsReadThoughNobodyWritesIt) {
  FileSourceOptions patient = options(dir_);
  patient.writer_quiet = milliseconds{600'000};
  open(patient);
  ASSERT_TRUE(run_until([this] { return registry_.complete; }));
  write(base_ / "complete", "moved\n");
  fs::create_hard_link(base_ / "complete", dir_ / "a.yaml");
  fs::remove(base_ / "complete");
  EXPECT_TRUE(becomes("a.yaml: moved"));
}

// Its directory reports no writes, but while the file is missing.
TEST_F(FileSourceTest, ASingleFileIsReadWhenItsWriterCloses) {
  const fs::path file = dir_ / "one";
  write(file, "v0\n");
  FileSourceOptions patient = options(file);
  patient.writer_quiet = milliseconds{600'000};
  open(patient);
  ASSERT_TRUE(run_until([&] { return registry_.print().ends_with(": v0"); }));
  for (const bool is_new : {false, true}) {
    const int texts = texts_read_;
    const int batches = registry_.batches;
    if (is_new) {
      fs::remove(file);
      ASSERT_TRUE(run_until([&] { return registry_.batches > batches; }));
    }
    std::ofstream out(file, std::ios::trunc);
    for (int i = 0; i < 10; ++i) {
      out << "half" << i << "\n" << std::flush;
      rename_over(dir_ / "beside", "a name that wakes the source\n");
      run_for(milliseconds{20});
    }
    EXPECT_EQ(texts_read_, texts) << is_new;
    out << "whole" << is_new << "\n";
    out.close();
    EXPECT_TRUE(run_until([&] {
      return registry_.print().ends_with("whole" + std::to_string(static_cast<int>(is_new)));
    })) << is_new
        << " " << registry_.print();
  }
}

TEST_F(FileSourceTest, RescanRepeatsFindingsAndChangesNothingElse) {
  write(dir_ / "a.yaml", "api\n");
  write(dir_ / "b.yaml", "refuse web\n");
  open();
  ASSERT_TRUE(complains("b.yaml", "refused"));
  registry_.findings.clear();
  const int texts = texts_read_;
  source_->rescan();
  EXPECT_TRUE(complains("b.yaml", "refused"));
  EXPECT_EQ(texts_read_, texts + 1);
  EXPECT_EQ(registry_.print(), "a.yaml: api | b.yaml:");
}

TEST_F(FileSourceTest, AHundredRescansOfTheSameTextsChangeNothing) {
  write(dir_ / "a.yaml", "api\n");
  open();
  const int batches = registry_.batches;
  const std::uint64_t reads = source_->status().reads;
  for (int i = 0; i < 100; ++i) source_->rescan();
  EXPECT_TRUE(run_until([&] { return source_->status().reads >= reads + 2; }));
  run_for(milliseconds{200});
  EXPECT_EQ(registry_.batches, batches);
  // One running, one pending; a walk and a file each.
  EXPECT_LE(source_->status().reads, reads + 6);
}

TEST_F(FileSourceTest, WithoutInotifyChangesAreFoundByPolling) {
  write(dir_ / "a.yaml", "v0\n");
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit none{0, limit.rlim_max};
  FileSourceOptions polled = options(dir_);
  polled.poll_without_inotify = milliseconds{50};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  registry_.root = dir_.string() + "/";
  source_ = std::make_unique<FileSource>(&loop_, polled, read_lines, registry_);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  source_->start();
  ASSERT_TRUE(becomes("a.yaml: v0"));
  EXPECT_THAT(registry_.findings[dir_.string()][0].message,
              HasSubstr("fs.inotify.max_user_instances"));
  rename_over(dir_ / "a.yaml", "v1\n");
  EXPECT_TRUE(becomes("a.yaml: v1"));
  write(dir_ / "b.yaml", "w1\n");
  EXPECT_TRUE(becomes("a.yaml: v1 | b.yaml: w1"));
  fs::remove(dir_ / "b.yaml");
  EXPECT_TRUE(becomes("a.yaml: v1"));
}

TEST_F(FileSourceTest, ALargeFirstReadingComesInPortions) {
  for (int f = 0; f < 5; ++f) {
    std::string text;
    for (int i = 0; i < 10'000; ++i) text.append(std::to_string(f * 10'000 + i)).append("\n");
    std::string name = "f";
    name.append(std::to_string(f)).append(".yaml");
    write(dir_ / name, text);
  }
  open();
  EXPECT_EQ(registry_.batches, 3);
  EXPECT_EQ(registry_.origins.size(), 5u);
}

TEST_F(FileSourceTest, NothingIsHeardOfASourceThatIsGone) {
  for (int i = 0; i < 200; ++i) {
    std::string name = "f";
    name.append(std::to_string(i)).append(".yaml");
    write(dir_ / name, "api\n");
  }
  for (int i = 0; i < 20; ++i) {
    open(options(dir_));
    for (int turns = 0; turns < i; ++turns) uv_run(&loop_, UV_RUN_NOWAIT);
    source_.reset();
    const int batches = registry_.batches;
    run_for(milliseconds{5});
    EXPECT_EQ(registry_.batches, batches);
  }
}

TEST_F(FileSourceTest, ManifestsBecomeResources) {
  write(dir_ / "shop.yaml", R"(
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: { name: api, namespace: shop }
spec:
  hosts: [api.example.org]
  ports: [{ number: 443, name: https, protocol: TLS }]
  resolution: DNS
)");
  FakeRegistryOfFiles registry;
  registry.root = dir_.string() + "/";
  source_ = make_manifest_source(&loop_, options(dir_), registry);
  source_->start();
  EXPECT_TRUE(run_until([&] { return registry.complete; }));
  EXPECT_EQ(registry.print(), "shop.yaml: api");
  source_.reset();
}

// A process that is to end does not wait until gigabytes have been read.
TEST_F(FileSourceTest, GivesUpTheReadingWhenItEnds) {
  for (const char* name : {"a.yaml", "b.yaml"}) std::ofstream(dir_ / name) << "api\n";
  std::atomic<int> begun = 0;
  std::atomic<bool> was_stopped = false;
  const auto read_slowly = [&](std::string_view, const ManifestOptions& manifest, ManifestSink&) {
    ++begun;
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(lock, manifest.stop, std::chrono::seconds{10},
                                           [] { return false; });
    was_stopped = manifest.stop.stop_requested();
    return Result<void>();
  };
  source_ = std::make_unique<FileSource>(&loop_, options(dir_), read_slowly, registry_);
  source_->start();
  ASSERT_TRUE(run_until([&] { return begun == 1; }));
  source_.reset();
  ASSERT_TRUE(run_until([&] { return was_stopped.load(); }));
  run_for(milliseconds{100});
  EXPECT_EQ(begun, 1) << "the second file was read";
  EXPECT_EQ(registry_.batches, 0);
}

}  // namespace
}  // namespace meshdns::registry
