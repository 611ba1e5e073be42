#include "signals.h"

#include <chrono>

#include "api.h"

namespace rlcomp {
namespace {

// Functions of the Python interpreter, passed as pointers: the library needs no Python headers.
// Part of the ABI (library.py).
struct Interpreter {
    int (*ensure)();                           // PyGILState_Ensure
    void (*release)(int);                      // PyGILState_Release
    int (*check)();                            // PyErr_CheckSignals
    void (*fetch)(void**, void**, void**);     // PyErr_Fetch
};

using Clock = std::chrono::steady_clock;
constexpr Clock::duration kPause = std::chrono::milliseconds(200);  // between two checks

Interpreter interpreter{};
thread_local Clock::time_point last{};
thread_local void* raised[3];
thread_local bool handling = false;

}  // namespace

bool in_handler() { return handling; }

void check_signals() {
    if (!interpreter.check || handling || Clock::now() - last < kPause) return;
    const int state = interpreter.ensure();
    handling = true;
    const bool stopped = interpreter.check() != 0;
    handling = false;
    if (stopped) interpreter.fetch(&raised[0], &raised[1], &raised[2]);
    interpreter.release(state);
    last = Clock::now();
    if (stopped) throw Interrupted();
}

}  // namespace rlcomp

RLCOMP_API void rlcomp_heed_signals(const rlcomp::Interpreter* interpreter) {
    rlcomp::interpreter = *interpreter;
}

// Writes the exception that interrupted the last call of this thread: type, value and traceback.
RLCOMP_API void rlcomp_raised(void** into) {
    for (int n = 0; n < 3; ++n) into[n] = rlcomp::raised[n], rlcomp::raised[n] = nullptr;
}
