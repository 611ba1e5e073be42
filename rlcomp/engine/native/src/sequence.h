// Sequences of tokens, and their KV cache: keys and values in pages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model.h"
#include "vector.h"

namespace rlcomp {

constexpr int64_t kTokens = 32;  // tokens of a page

// Layout of a page. For each layer and kv head: keys [size][kTokens], then values [kTokens][size].
// So the scores of a page's tokens are sums of whole vectors, and so are the outputs.
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

    int64_t heads, size, floats;  // size: of a head, rounded up to whole vectors; floats: of a page
};

// Pool of pages; freed pages are used again.
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

// A row of tokens: the tokens of its parent (a prompt that rows share), then its own tokens.
struct Sequence {
    // Reserves pages for `count` more tokens; a page that it shares with a fork is copied first.
    void reserve(Pool& pool, int64_t count);

    int64_t before() const { return parent ? parent->length : 0; }
    // Returns the last hidden state, after the last norm, of the last token.
    const float* behind() const { return length || !parent ? state.data() : parent->state.data(); }

    std::shared_ptr<const Sequence> parent;
    std::vector<Pool::Page> pages;
    int64_t length = 0;        // number of its own tokens
    std::vector<float> state;  // last hidden state of its last own token
    std::string tail;          // last sampled bytes, in which a stop text may have begun
};

}  // namespace rlcomp
