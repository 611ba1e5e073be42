#include "sequence.h"

#include <algorithm>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace rlcomp {

// Memory is allocated in huge pages of the machine, of 2 MB. The KV pages of a row lie apart: with
// small pages of the machine, each would need an address lookup.
constexpr int64_t kLarge = int64_t{1} << 21;
constexpr std::align_val_t kAligned{kLarge};

Pool::~Pool() {
    for (float* slab : slabs_) ::operator delete[](slab, kAligned);
}

void Pool::grow() {
    const int64_t page = floats_ * sizeof(float), count = std::max<int64_t>(1, kLarge / page);
    const int64_t bytes = rounded_up(count * page, kLarge);
    slabs_.reserve(slabs_.size() + 1);
    free_.reserve((slabs_.size() + 1) * count);  // so that freeing a page never fails
    float* slab = static_cast<float*>(::operator new[](bytes, kAligned));
#if defined(__linux__)
    madvise(slab, bytes, MADV_HUGEPAGE);
#endif
    slabs_.push_back(slab);
    for (int64_t n = count; n-- > 0;) free_.push_back(slab + n * floats_);
}

Pool::Page Pool::take() {
    if (free_.empty()) grow();
    float* page = free_.back();
    free_.pop_back();
    return Page(page, [this](float* p) { free_.push_back(p); });
}

Pool::Page Pool::copy(const Page& page) {
    Page other = take();
    std::copy(page.get(), page.get() + floats_, other.get());
    return other;
}

void Sequence::reserve(Pool& pool, int64_t count) {
    for (int64_t page = length / kTokens; page * kTokens < length + count; ++page) {
        if (page == static_cast<int64_t>(pages.size()))
            pages.push_back(pool.take());
        else if (pages[page].use_count() > 1)
            pages[page] = pool.copy(pages[page]);
    }
}

}  // namespace rlcomp
