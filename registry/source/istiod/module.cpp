// SPDX-License-Identifier: Apache-2.0
#include "registry/source/istiod/module.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <string_view>
#include <system_error>

namespace meshdns::registry::istiod {
namespace {

constexpr const char* kModuleFile = "meshdns-istiod.so";

// Loads one file and checks that it was built with this program: the interface has no other
// version.
Result<AdsModule*> load_file(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(path + " cannot be loaded: " + dlerror());
  const auto* const version = static_cast<const char*>(dlsym(library, kModuleVersionSymbol));
  using GetModule = AdsModule* (*)();
  const auto get = reinterpret_cast<GetModule>(dlsym(library, kModuleSymbol));
  if (version == nullptr || get == nullptr)
    return fail(path + " is not the module of meshdns; install the package again");
  if (std::string_view(version) != MESHDNS_VERSION)
    return fail(path + " is of version " + version + ", but meshdnsd is of version " +
                MESHDNS_VERSION + "; install the package again, then restart meshdnsd");
  return get();
}

}  // namespace

std::vector<std::string> module_paths() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string packaged = std::string(MESHDNS_MODULE_DIR) + "/" + kModuleFile;
  if (error) return {packaged};
  return {(program.parent_path() / kModuleFile).string(), packaged};
}

Result<AdsModule*> load_module(const std::vector<std::string>& paths) {
  std::error_code error;
  for (const std::string& path : paths)
    if (std::filesystem::exists(path, error)) return load_file(path);
  return fail("the module for istiod sources is not installed: there is no " + paths.back() +
              "; install the whole package, or build with MESHDNS_ISTIOD=ON");
}

}  // namespace meshdns::registry::istiod
