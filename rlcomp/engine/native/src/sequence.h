// Tokens that were read, and what the layers keep of them: keys and values in pages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model.h"
#include "vector.h"

namespace rlcomp {

constexpr int64_t kTokens = 32;  // of a page

// The numbers of a page, for each layer and head: keys [size][kTokens], then values
// [kTokens][size]. Scores of a page's tokens are then sums of whole vectors, and so are outputs.
struct PageShape {
    explicit PageShape(const Model& m)
        : heads(m.kv_heads), size(rounded_up(m.head_size, W)),
          floats(m.layers * m.kv_heads * 2 * kTokens * size) {}

    int64_t keys(int64_t layer, int64_t head) const {
        return (layer * heads + head) * 2 * kTokens * size;
    }
    int64_t values(int64_t layer, int64_t head) const {
        return keys(layer, head) + kTokens * size;
    }

    int64_t heads, size, floats;  // size: of a head, filled up to whole vectors
};

// Memory of pages; those given back are taken again first.
class Pool {
  public:
    explicit Pool(int64_t floats) : floats_(floats) {}
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    ~Pool();

    using Page = std::shared_ptr<float[]>;
    Page take();
    Page copy(const Page& page);

  private:
    void grow();

    int64_t floats_;
    std::vector<float*> slabs_, free_;
};

// A row of tokens: those of its parent (a prompt that rows share) and its own behind them.
struct Sequence {
    // Room for more tokens, in pages of its own: those that a fork shares are copied first.
    void reserve(Pool& pool, int64_t count);

    int64_t before() const { return parent ? parent->length : 0; }
    // The last state, normed, behind its last token.
    const float* behind() const { return length || !parent ? state.data() : parent->state.data(); }

    std::shared_ptr<const Sequence> parent;
    std::vector<Pool::Page> pages;
    int64_t length = 0;  // of its own tokens
    std::vector<float> state;
    std::string tail;  // of the bytes sampled: a stop text may have begun in it
};

}  // namespace rlcomp
