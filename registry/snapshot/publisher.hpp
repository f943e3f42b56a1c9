// SPDX-License-Identifier: Apache-2.0
// Hands snapshots from the control thread to the workers: one generation number to compare, a lock
// only when it has moved, and no reference count that two workers write.
//
// std::atomic<std::shared_ptr> of GCC 12 is not clean under ThreadSanitizer, and a reference
// counted per query would be the one shared cache line that every worker writes.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "registry/snapshot/snapshot.hpp"

namespace meshdns::registry {

class Publisher {
 public:
  // One worker's hold on the current snapshot.  The worker's thread only.
  class Reader {
   public:
    explicit Reader(Publisher& publisher);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    // The newest snapshot; stays valid until the next call of current() on this reader.
    const Snapshot& current() {
      if (publisher_.generation_.load(std::memory_order_acquire) != seen_) refresh();
      return *snapshot_;
    }

   private:
    friend class Publisher;
    void refresh();
    Publisher& publisher_;
    std::uint64_t seen_ = 0;
    const Snapshot* snapshot_ = nullptr;
    const Snapshot* held_ = nullptr;  // guarded by publisher_.mutex_
  };

  explicit Publisher(std::shared_ptr<const Snapshot> first);

  // Control thread.  Readers see it at their next current().  Snapshots that no reader holds any
  // more are freed here, on the control thread, never on a worker's.
  void publish(std::shared_ptr<const Snapshot> next);
  // Frees snapshots that readers have left; call it from time to time if nothing is published.
  void collect();
  // The newest one.  Any thread.
  std::shared_ptr<const Snapshot> current() const;

  // Called after each publish, on the control thread; workers use it to wake queries that wait.
  void set_listener(std::function<void()> listener) { listener_ = std::move(listener); }

 private:
  mutable std::mutex mutex_;
  std::atomic<std::uint64_t> generation_{0};
  std::shared_ptr<const Snapshot> current_;               // guarded by mutex_
  std::vector<std::shared_ptr<const Snapshot>> retired_;  // guarded by mutex_
  std::vector<Reader*> readers_;                          // guarded by mutex_
  std::function<void()> listener_;                        // control thread
};

}  // namespace meshdns::registry
