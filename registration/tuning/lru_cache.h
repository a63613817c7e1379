// A cache that forgets its least recently used entries, for any number of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "registration/tuning/once.h"

namespace haloconv::tuning {

// Holds `capacity` entries, and more only while more are in use: an entry to which somebody still
// has a pointer is not forgotten, so that no two entries of one key are ever in use at once.
template <class Key, class Value, class Hash = std::hash<Key>>
class LruCache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  // The key's value. If there is none, make() makes it, a unique_ptr<Value>. Threads that meet at a
  // new key share one value: the first makes it, without holding the cache's lock, and the others
  // wait for it. If make() throws, no entry is left behind.
  template <class Make>
  std::shared_ptr<Value> get(const Key& key, const Make& make) {
    std::shared_ptr<Slot> slot = use(key);
    try {
      Value* const value = slot->get([&] { return std::optional(make()); })->get();
      return std::shared_ptr<Value>(std::move(slot), value);
    } catch (...) {
      drop_if_empty(key, std::move(slot));
      throw;
    }
  }

  // The key's value, or null if there is none. Neither makes one nor counts as a use.
  std::shared_ptr<Value> find(const Key& key) const {
    std::shared_ptr<Slot> slot;
    {
      const std::lock_guard lock(mutex_);
      const auto found = entries_.find(key);
      if (found == entries_.end()) return nullptr;
      slot = found->second->slot;
    }
    const auto* const value = slot->peek();
    if (value == nullptr) return nullptr;
    return std::shared_ptr<Value>(std::move(slot), value->get());
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

  // Forgets all entries; those in use live on with whoever has them.
  void clear() {
    std::list<Entry> forgotten;
    const std::lock_guard lock(mutex_);
    entries_.clear();
    forgotten.swap(order_);  // and destroyed after the lock is released
  }

 private:
  // Callers own the slot, by a pointer that points to its value. While the slot's use count is 1,
  // only the cache has it, and it can only be had under the cache's lock.
  using Slot = Once<std::unique_ptr<Value>>;

  struct Entry {
    Key key;
    std::shared_ptr<Slot> slot;
  };

  // The key's slot, a new one if there was none, as the most recently used.
  std::shared_ptr<Slot> use(const Key& key) {
    std::vector<std::shared_ptr<Slot>> forgotten;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->slot;
    }
    order_.push_front({.key = key, .slot = std::make_shared<Slot>()});
    entries_.emplace(key, order_.begin());
    const std::shared_ptr<Slot> slot = order_.front().slot;
    for (auto entry = order_.end(); entries_.size() > capacity_ && entry != order_.begin();) {
      --entry;
      if (entry->slot.use_count() > 1) continue;
      forgotten.push_back(std::move(entry->slot));
      entries_.erase(entry->key);
      entry = order_.erase(entry);
    }
    return slot;
  }

  // Each thread lets go of the slot under the lock, so that the last one can tell that it is the
  // last.
  void drop_if_empty(const Key& key, std::shared_ptr<Slot> slot) {
    const std::lock_guard lock(mutex_);
    slot.reset();
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    const std::shared_ptr<Slot>& kept = found->second->slot;
    if (kept.use_count() > 1 || kept->peek() != nullptr) return;
    order_.erase(found->second);
    entries_.erase(found);
  }

  const size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> order_;  // the most recently used first
  std::unordered_map<Key, typename std::list<Entry>::iterator, Hash> entries_;
};

}  // namespace haloconv::tuning
