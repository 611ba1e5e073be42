"""A Chromium without a window, driven over its DevTools protocol through a pipe."""

import base64
import json
import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def found():
    """The browser of this machine: ``$CHROMIUM``, or one on the path; None without any."""
    return next(filter(None, map(shutil.which, (os.environ.get("CHROMIUM", ""), *NAMES))), None)


class Browser:
    """Messages end in a zero byte; the browser reads descriptor 3 and writes descriptor 4."""

    def __init__(self, program, profile):
        ours, theirs = os.pipe(), os.pipe()

        def pipes():
            # Out of the way first: one of the ends may be 3 or 4 itself.
            read, write = os.dup(ours[0]), os.dup(theirs[1])
            read, write = os.dup2(read, 70), os.dup2(write, 71)
            os.dup2(read, 3)
            os.dup2(write, 4)

        words = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        words += ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        words += ["--no-first-run", "--disable-background-networking", "about:blank"]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            [program, *words], preexec_fn=pipes, close_fds=False, stdout=quiet, stderr=quiet
        )
        os.close(ours[0])
        os.close(theirs[1])
        self.write, self.read = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")
        self.number, self.session, self.events, self.rest = 0, {}, [], b""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **settings):
        """The answer to a command; events meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": settings, **self.session}
        self.write.write(json.dumps(message).encode() + b"\0")
        self.write.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self):
        while b"\0" not in self.rest:
            read = self.read.read1(1 << 20)
            assert read, "the browser has gone"
            self.rest += read
        line, _, self.rest = self.rest.partition(b"\0")
        return json.loads(line)

    def wait(self, method):
        """The next event of a name."""
        while True:
            if found := [event for event in self.events if event.get("method") == method]:
                self.events = [event for event in self.events if event is not found[0]]
                return found[0]
            self.events.append(self._next())

    def open(self, path, *, width, dark, height=900):
        """Load a page at a width, in a theme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[theme])
        self.events = []
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.wait("Page.loadEventFired")

    def value(self, expression):
        """What an expression gives in the page."""
        told = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def move(self, x, y):
        """The pointer to a place of the window."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def faults(self):
        """What the page complained of, and what it asked for beside itself."""
        told = [event for event in self.events if event.get("method") == "Log.entryAdded"]
        told += [event for event in self.events if "exception" in event.get("method", "")]
        asked = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        urls = [event["params"]["request"]["url"] for event in asked]
        return told + [url for url in urls if not url.endswith("report.html")]

    def screenshot(self, file):
        """The whole page as a PNG."""
        height = self.value("document.documentElement.scrollHeight")
        width = self.value("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 8000), "scale": 1}
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        """End the browser."""
        self.process.terminate()
        self.process.wait()
        self.write.close()
        self.read.close()
