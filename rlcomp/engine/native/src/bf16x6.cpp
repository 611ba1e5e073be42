#include "bf16x6.h"

#include "api.h"
#include "signals.h"

#if defined(__AMX_BF16__) && defined(__AVX512F__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "bf16_panels.h"

namespace rlcomp {
namespace {

// Of the nine products of the parts of two numbers, a2 b3, a3 b2 and a3 b3 are left out: together
// less than 2^-20 of a b, and 2^-24.5 on average; float32 itself rounds by 2^-24 at most.
//
// Inputs of a chain of sums; columns of B whose parts stay in the second-level cache; rows of C
// that are computed before the next inputs.
constexpr int64_t kInputs = 512, kColumns = 320, kRows = 1024;

// Tiles of this thread: 0 to 3 for sums, 4 and 5 for A, 6 and 7 for B. The destructor restores the
// earlier configuration.
class Tiles {
  public:
    Tiles() {
        _tile_storeconfig(before_);
        alignas(64) uint8_t wanted[64] = {1};
        for (int tile = 0; tile < 8; ++tile) {
            wanted[16 + 2 * tile] = 64;  // bytes of a row
            wanted[48 + tile] = kSide;
        }
        load(wanted);
    }
    ~Tiles() { load(before_); }

  private:
    // Tells the compiler that all 64 bytes are read: the intrinsic names only the first.
    static void load(const uint8_t* config) {
        asm volatile("" ::"r"(config) : "memory");
        _tile_loadconfig(config);
    }

    alignas(64) uint8_t before_[64];
};

// Multiplies a panel of A with a panel of B, of one tile or two (Two), kDepth inputs a step; writes
// the sums [32, 32]. Each step adds the smaller products first. `beside` is called while the unit
// works.
template <bool Two, class Beside>
inline void multiply(const uint16_t* a, const uint16_t* b, int64_t steps, float* sums,
                     Beside beside) {
    asm volatile("" ::: "memory");  // the memory of the tiles must be written before
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const auto load_a = [&](int64_t part) {
        _tile_loadd(4, a + (part - 1) * 2 * kTile, 64);
        _tile_loadd(5, a + (part - 1) * 2 * kTile + kTile, 64);
    };
    const auto load_b = [&](int64_t part) {
        _tile_loadd(6, b + (part - 1) * 2 * kTile, 64);
        if constexpr (Two) _tile_loadd(7, b + (part - 1) * 2 * kTile + kTile, 64);
    };
    const auto add_products = [&] {
        _tile_dpbf16ps(0, 4, 6);
        if constexpr (Two) _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        if constexpr (Two) _tile_dpbf16ps(3, 5, 7);
        beside();
    };
    for (int64_t step = 0; step < steps; ++step, a += kStep, b += kStep) {
        load_a(1), load_b(3), add_products();
        load_b(2), add_products();
        load_a(2), add_products();
        load_b(1), add_products();
        load_a(3), add_products();
        load_a(1), add_products();
    }
    constexpr int64_t bytes = kPair * sizeof(float);
    _tile_stored(0, sums, bytes);
    _tile_stored(1, sums + kSide, bytes);
    _tile_stored(2, sums + kSide * kPair, bytes);
    _tile_stored(3, sums + kSide * kPair + kSide, bytes);
}

// Returns memory of this thread for the parts of a panel; it is kept for the next product.
uint16_t* scratch(int which, int64_t numbers) {
    struct alignas(64) Line {
        uint16_t numbers[kDepth];
    };
    static thread_local std::vector<Line> kept[3];
    const auto lines = static_cast<size_t>((numbers + kDepth - 1) / kDepth);
    if (kept[which].size() < lines) kept[which].resize(lines);
    return kept[which].data()->numbers;
}

// Computes C [m, n] (+)= A [m, k] B [k, n] for at most kInputs inputs and kColumns columns.
void block(Input a, Input b, Output c, int64_t m, int64_t n, int64_t k, bool add) {
    const int64_t steps = (k + kDepth - 1) / kDepth, panel = steps * kStep;
    uint16_t* columns = scratch(0, (n + kPair - 1) / kPair * panel);
    uint16_t* rows[2] = {scratch(1, panel), scratch(2, panel)};
    const auto columns_from = [&](int64_t j) { return columns + j / kPair * panel; };
    const auto splitter = [&](int64_t i) {
        return Splitter(a.from(i, 0), Splitter::kRowsOfA, m - i, k, rows[i / kPair % 2]);
    };
    const auto all = [](auto& work) {
        while (work.next()) {}
    };
    for (int64_t j = 0; j < n; j += kPair) {
        Splitter now(b.from(0, j), Splitter::kColumnsOfB, n - j, k, columns_from(j));
        all(now);
    }
    Splitter first = splitter(0);
    all(first);
    alignas(64) float sums[2][kPair * kPair];
    Writer writer;
    bool odd = false;
    for (int64_t i = 0; i < m; i += kPair) {
        Splitter next = splitter(i + kPair);
        const auto beside = [&] { writer.next(), next.next(); };
        for (int64_t j = 0; j < n; j += kPair, odd = !odd) {
            const uint16_t* mine = rows[i / kPair % 2];
            n - j > kSide ? multiply<true>(mine, columns_from(j), steps, sums[odd], beside)
                          : multiply<false>(mine, columns_from(j), steps, sums[odd], beside);
            all(writer);
            writer = Writer(sums[odd], c.from(i, j), m - i, n - j, add);
        }
        all(next);
    }
    all(writer);
}

}  // namespace

bool has_bf16x6() {
    unsigned a, b, c, d = 0;
    constexpr unsigned bf16 = 1u << 22, tile = 1u << 24;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & bf16) || !(d & tile)) return false;
    constexpr int64_t request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM
    return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

void bf16x6(Input a, Input b, Output c, int64_t m, int64_t n, int64_t k, bool add) {
    // The numbers of rows are split while the unit multiplies, of columns before: so the larger
    // factor becomes the rows.
    if (a.column == 1 && b.row == 1 && m < n)
        return bf16x6(b.transposed(), a.transposed(), c.transposed(), n, m, k, add);
    const int64_t parts = (k + kInputs - 1) / kInputs;
    const int64_t inputs = rounded_up((k + parts - 1) / parts, kDepth);
    for (int64_t j = 0; j < n; j += kColumns)
        for (int64_t i = 0; i < m; i += kRows) {
            check_signals();  // before Tiles: a handler may configure the unit in another way
            const Tiles tiles;
            for (int64_t at = 0; at < k; at += inputs)
                block(a.from(i, at), b.from(at, j), c.from(i, j), std::min(kRows, m - i),
                      std::min(kColumns, n - j), std::min(inputs, k - at), add || at > 0);
        }
}

}  // namespace rlcomp

#else

namespace rlcomp {

bool has_bf16x6() { return false; }
void bf16x6(Input, Input, Output, int64_t, int64_t, int64_t, bool) {}

}  // namespace rlcomp

#endif

RLCOMP_API int rlcomp_has_bf16x6() { return rlcomp::has_bf16x6(); }

// Takes the address of each matrix, and the distances of two rows and two columns. Returns the
// result of guarded().
RLCOMP_API int rlcomp_bf16x6(const float* a, int64_t a_row, int64_t a_column, const float* b,
                             int64_t b_row, int64_t b_column, float* c, int64_t c_row,
                             int64_t c_column, int64_t m, int64_t n, int64_t k, int64_t add) {
    return rlcomp::guarded([&] {
        rlcomp::bf16x6({a, a_row, a_column}, {b, b_row, b_column}, {c, c_row, c_column}, m, n, k,
                       add);
    });
}
