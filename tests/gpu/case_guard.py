"""case_guard.py RUNNER SCRIPT: runs a case's script and ends with its code. When the runner, whose process id is
RUNNER, is killed or sends this process SIGTERM, the script gets SIGTERM, once, so that it cleans up.

The kernel sends a parent-death signal (prctl(2), PR_SET_PDEATHSIG) once for each thread of the parent that goes: a
killed runner with several threads sends several. A bash that gets a second SIGTERM while it runs its EXIT trap dies
without having cleaned up.
"""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "apps"))
import runner  # noqa: E402


def main():
    script = subprocess.Popen(sys.argv[2:], preexec_fn=runner.prepare_child)

    def pass_on(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        script.terminate()

    signal.signal(signal.SIGTERM, pass_on)
    runner.LIBC.prctl(runner.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        pass_on()
    code = script.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
