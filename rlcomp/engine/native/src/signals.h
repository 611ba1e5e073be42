// Signals that come in while the library computes.
#pragma once

#include <exception>

namespace rlcomp {

// A signal handler of the interpreter has raised an exception, which rlcomp_raised gives.
struct Interrupted : std::exception {};

// Lets the interpreter run the handlers of signals, a few times a second. Throws Interrupted.
void check_signals();

// Whether a handler is running, which may call the library again.
bool in_handler();

// What a call returns: 0, 1 where memory ran out, 2 where it was interrupted.
template <class Call>
int guarded(Call call) {
    try {
        call();
        return 0;
    } catch (const Interrupted&) {
        return 2;
    } catch (const std::exception&) {
        return 1;
    }
}

}  // namespace rlcomp
