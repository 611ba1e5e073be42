// Stops: a turn ends at a stop token, or at the token that completes a stop text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rlcomp {

// Concatenated byte strings, and the end of each.
struct Texts {
    const char* bytes;
    const int64_t* ends;
    int64_t count;

    std::string_view at(int64_t n) const {
        const int64_t begin = n ? ends[n - 1] : 0;
        return {bytes + begin, static_cast<size_t>(ends[n] - begin)};
    }
};

// Stop texts are searched in the bytes of the sampled tokens: a token need not end where a text
// ends.
class Stops {
  public:
    // `table`: the bytes of each token; used only if there are stop texts.
    Stops(const int64_t* tokens, int64_t count, const Texts& texts, const Texts& table)
        : tokens_(tokens, tokens + count), texts_(texts), table_(table) {
        for (int64_t n = 0; n < texts.count; ++n) longest_ = std::max(longest_, texts.at(n).size());
    }

    // Returns whether a token ends a row. `tail` are the last bytes of the row, in which a stop
    // text may have begun; the bytes of the token are added.
    bool ends(int64_t token, std::string& tail) const {
        if (std::find(tokens_.begin(), tokens_.end(), token) != tokens_.end()) return true;
        if (!texts_.count) return false;
        tail += table_.at(token);
        for (int64_t n = 0; n < texts_.count; ++n)
            if (tail.find(texts_.at(n)) != std::string::npos) return true;
        const size_t kept = longest_ - 1;
        if (tail.size() > kept) tail.erase(0, tail.size() - kept);
        return false;
    }

  private:
    std::vector<int64_t> tokens_;
    Texts texts_, table_;
    size_t longest_ = 1;
};

}  // namespace rlcomp
