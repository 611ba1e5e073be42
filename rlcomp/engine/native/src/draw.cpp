#include "draw.h"

#include <algorithm>
#include <cmath>

#include "vector.h"

namespace rlcomp {

// Tokens of a block of a large vocabulary: first a block is drawn, then a token of the block.
constexpr int64_t kBlock = 128;

Draw::Draw(int64_t vocabulary, double temperature, const int64_t* suppressed, int64_t count)
    : vocabulary_(vocabulary), temperature_(temperature), suppressed_(suppressed, suppressed + count),
      weights_(rounded_up(vocabulary, kBlock)), sums_(weights_.size() / kBlock),
      cumulative_(std::max<size_t>(sums_.size(), 2 * kBlock)) {}

// Writes the cumulative sums of weights; returns their total.
double Draw::cumulate(const float* weights, int64_t count) {
    double total = 0.0;
    for (int64_t i = 0; i < count; ++i) cumulative_[i] = total += weights[i];
    return total;
}

// Returns the first index whose cumulative sum exceeds `uniform` times the total; if rounding leads
// to an index of weight 0, the median.
int64_t Draw::invert(const float* weights, int64_t count, double uniform) const {
    const auto at = [&](double share) {
        const auto end = cumulative_.begin() + count;
        const auto found = std::upper_bound(cumulative_.begin(), end, share * *(end - 1));
        return std::min<int64_t>(found - cumulative_.begin(), count - 1);
    };
    const int64_t drawn = at(uniform);
    return weights[drawn] > 0.0f ? drawn : at(0.5);
}

Drawn Draw::most_likely(const float* logits) const {
    return {std::max_element(logits, logits + vocabulary_) - logits, 0.0f};
}

Drawn Draw::operator()(float* logits, double uniform) {
    const float temperature = static_cast<float>(temperature_);
    if (temperature_ != 0.0 && temperature_ != 1.0)
        for (int64_t i = 0; i < vocabulary_; ++i) logits[i] /= temperature;
    for (const int64_t token : suppressed_) logits[token] = -INFINITY;
    if (temperature_ == 0.0) return most_likely(logits);
    float top = logits[0];
    for (int64_t i = 1; i < vocabulary_; ++i) top = logits[i] > top ? logits[i] : top;
    const int64_t whole = vocabulary_ / W * W;
    const Vec most = splat(top);
    for (int64_t i = 0; i < whole; i += W) store(&weights_[i], exponential(load(logits + i) - most));
    for (int64_t i = whole; i < vocabulary_; ++i)
        weights_[i] = exponential(splat(logits[i] - top))[0];
    double total;
    int64_t token;
    if (vocabulary_ <= 2 * kBlock) {
        total = cumulate(weights_.data(), vocabulary_);
        token = invert(weights_.data(), vocabulary_, uniform);
    } else {
        // First a block is drawn, then a token of it by the remainder of the uniform number.
        const int64_t blocks = static_cast<int64_t>(sums_.size());
        for (int64_t b = 0; b < blocks; ++b) {
            Vec some{};
            for (int64_t i = 0; i < kBlock; i += W) some += load(&weights_[b * kBlock + i]);
            sums_[b] = sum(some);
        }
        total = cumulate(sums_.data(), blocks);
        const int64_t block = invert(sums_.data(), blocks, uniform);
        const double above = (uniform * total - cumulative_[block]) / sums_[block];
        const double left = std::clamp(above + 1.0, 0.0, 1.0);
        const float* inside = weights_.data() + block * kBlock;
        cumulate(inside, kBlock);
        token = std::min(block * kBlock + invert(inside, kBlock, left), vocabulary_ - 1);
    }
    return {token, static_cast<float>(logits[token] - top - std::log(total))};
}

}  // namespace rlcomp
