"""A browser without a window, driven over the DevTools protocol through a pipe, with the standard library alone."""
import base64
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find():
    """The path of a browser of the Chromium family; None: there is none."""
    named = os.environ.get("TEST_BROWSER")
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one page. Closes itself at the end of a `with` block."""

    def __init__(self, path, timeout=30):
        self.folder = tempfile.mkdtemp(prefix="cupola-browser-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        # The browser reads from descriptor 3 and writes to 4. High numbers first: 3 and 4 may be ours.
        script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        words = [path, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 "--disable-dev-shm-usage", "--no-first-run", "--mute-audio", "--force-color-profile=srgb",
                 f"--user-data-dir={self.folder}", "about:blank"]
        self.process = subprocess.Popen(["timeout", str(10 * timeout), "bash", "-c", script, *words],
                                        pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.reader = os.fdopen(self.read_end, "rb", buffering=0)
        self.left = b""
        self.number = 0
        self.events = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.close(self.write_end)
        self.reader.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _next(self):
        while b"\0" not in self.left:
            part = self.reader.read(1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self.left += part
        message, self.left = self.left.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def run(self, expression):
        """The value of a JavaScript expression, which may be a promise."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(json.dumps(done["exceptionDetails"])[:2000])
        return done["result"].get("value")

    def set(self, width=1280, height=800, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        # Two frames later everything has been drawn anew.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def screenshot(self, clip=None):
        """A PNG of the window, or of `clip`: (x, y, width, height) of the page."""
        more = {}
        if clip is not None:
            more = {"clip": dict(zip(("x", "y", "width", "height"), clip), scale=1), "captureBeyondViewport": True}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])

    def press(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def complaints(self):
        """Errors and warnings of the console, exceptions, and requests other than for the page itself."""
        found = []
        for event in self.events:
            method, what = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(json.dumps(what["exceptionDetails"])[:500])
            elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(what["args"])[:500])
            elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not what["request"]["url"].startswith(("file:", "data:")):
                found.append("a request for " + what["request"]["url"])
        return found
