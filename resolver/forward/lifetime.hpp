// SPDX-License-Identifier: Apache-2.0
// The rule of ownership for objects that call each other back: an upstream's answer ends a
// question, the question ends its queries, and one of these is the caller.
//
//   1. Nothing is destroyed inside a callback.  Such objects derive from Retirable, and their
//      destructors are private.  They are made by make_owned() or make_shared_owned().  When the
//      last owner lets go, the object is retired: it stops at once (on_retire), and its memory is
//      freed at the end of the turn, when none of its functions can be running.
//   2. Nobody keeps a raw pointer to such an object beyond the turn.  An object that does not own
//      the other keeps a Weak, which is empty from the moment at which the other is retired.
//   3. A loop that calls back for each element of a container takes one element at a time out of
//      the container, because any callback may change it.
//
// A turn is one call from the event loop, or one call of the forwarder from outside.  Envoy's
// deferredDelete and Folly's DelayedDestruction follow the same idea.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "resolver/cache/free_memory.hpp"

namespace meshdns::dnsd {

class Retirable;
class WeakLink;

// Retired objects of one event loop, until the end of the turn.  The loop's thread only.
class RetireList {
 public:
  RetireList() = default;
  RetireList(const RetireList&) = delete;
  RetireList& operator=(const RetireList&) = delete;
  ~RetireList();

  // Lasts as long as functions of retirable objects may be running.  Turns nest; the outermost
  // frees what was retired.  REQUIRES: the list outlives it.
  class Turn {
   public:
    explicit Turn(RetireList& list) : list_(list) { ++list_.depth_; }
    ~Turn() {
      if (list_.depth_ == 1) list_.free_retired();
      --list_.depth_;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    RetireList& list_;
  };

  bool is_in_turn() const { return depth_ > 0; }

 private:
  friend class Retirable;
  void add(Retirable& object);
  void free_retired();

  Retirable* first_ = nullptr;
  unsigned depth_ = 0;
};

// Base of what is destroyed at the end of a turn only.  Outside of a turn, retired objects are
// freed at once.  The loop's thread only.
class Retirable {
 public:
  Retirable(const Retirable&) = delete;
  Retirable& operator=(const Retirable&) = delete;
  bool is_retired() const { return is_retired_; }

 protected:
  // REQUIRES: `list` outlives the object.
  explicit Retirable(RetireList& list) : list_(list) {}
  virtual ~Retirable();

 private:
  friend class RetireList;
  friend class WeakLink;
  friend struct Retire;

  // Stops timers, closes sockets and lets go of other objects.  Called once; calls nobody back.
  virtual void on_retire() = 0;
  void retire();
  void clear_weak_links();

  RetireList& list_;
  WeakLink* weak_links_ = nullptr;
  Retirable* next_retired_ = nullptr;
  bool is_retired_ = false;
};

// The deleter of owners.
struct Retire {
  void operator()(Retirable* object) const { object->retire(); }
};

template <typename T>
using Owned = std::unique_ptr<T, Retire>;

template <typename T>
concept DiesAtTheEndOfATurn = std::derived_from<T, Retirable> && !std::is_destructible_v<T>;

template <DiesAtTheEndOfATurn T, typename... Arguments>
Owned<T> make_owned(Arguments&&... arguments) {
  return Owned<T>(new T(std::forward<Arguments>(arguments)...));
}
template <DiesAtTheEndOfATurn T, typename... Arguments>
std::shared_ptr<T> make_shared_owned(Arguments&&... arguments) {
  return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...), Retire());
}

// An entry in the list of those that refer to an object.
class WeakLink {
 protected:
  WeakLink() = default;
  explicit WeakLink(Retirable& object) { link(&object); }
  WeakLink(const WeakLink& other) { link(other.object_); }
  WeakLink& operator=(const WeakLink& other);
  ~WeakLink() { unlink(); }

  Retirable* object() const { return object_; }

 private:
  friend class Retirable;
  void link(Retirable* object);
  void unlink();

  Retirable* object_ = nullptr;
  WeakLink* previous_ = nullptr;
  WeakLink* next_ = nullptr;
};

// Refers to a retirable object without owning it.  Empty from the moment at which it is retired.
template <typename T>
class Weak : private WeakLink {
 public:
  Weak() = default;
  explicit Weak(T& object) : WeakLink(object) {}

  // Null when the object is retired.  Valid for this turn.
  T* get() const { return static_cast<T*>(object()); }
  explicit operator bool() const { return object() != nullptr; }
};

// Base of objects of which each query that waits takes one: a thread keeps the memory of those that
// are gone for those to come.  The heap would merge and split it again, with a third of a
// forwarded query's time and holes between what lives longer.
// REQUIRES: nothing is derived from T.
template <typename T>
class Recycled {
 public:
  static constexpr std::size_t kMaxSpare = 64;  // of each thread

  static void* operator new(std::size_t size) {
    std::vector<void*>& spare = spares().memory;
    if (spare.empty()) return ::operator new(size);
    void* const memory = spare.back();
    spare.pop_back();
    check_free_memory(memory, size);
    return memory;
  }
  static void operator delete(void* memory, std::size_t size) {
    if (!kKeepsFreeMemory) return ::operator delete(memory);
    std::vector<void*>& spare = spares().memory;
    if (spare.size() == spare.capacity()) return ::operator delete(memory);
    poison_free_memory(memory, size);
    spare.push_back(memory);
  }

 private:
  friend T;
  Recycled() = default;

  struct Spares {
    Spares() { memory.reserve(kMaxSpare); }
    Spares(const Spares&) = delete;
    Spares& operator=(const Spares&) = delete;
    ~Spares() {
      for (void* each : memory) ::operator delete(each);
    }
    std::vector<void*> memory;
  };
  static Spares& spares() {
    thread_local Spares spares;
    return spares;
  }
};

}  // namespace meshdns::dnsd
