# terminal.py SOCKET COMMAND: 60 processes on the board, and `cupola top` on terminals of several kinds.
import fcntl, os, pty, select, struct, subprocess, sys, termios, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../cli"))
from vt_screen import Screen

path, cupola = sys.argv[1:3]
bad = 0


def tell(is_right, what):
    global bad
    print(("right: " if is_right else "WRONG: ") + what, flush=True)
    bad |= not is_right


def member(name):
    """A process on the board, whose program has this name."""
    copy = os.path.join(os.path.dirname(path), name)
    os.link(os.path.join(os.path.dirname(path), "member"), copy)
    process = subprocess.Popen([copy, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if process.stdout.readline() != b"joined\n":
        sys.exit(77)
    return process


def top(rows=24, columns=80, term="xterm", keys=b"", stdin=None):
    """What top has written when its first table is there, whether it then ends by itself, and the lines on the screen."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen([cupola, "top", "--socket", path], env=dict(os.environ, TERM=term), stdout=theirs,
                               stderr=theirs, stdin=theirs if stdin is None else stdin, start_new_session=True)
    os.close(theirs)
    text, end = b"", time.monotonic() + 20
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.05)[0]:
            try:
                text += os.read(ours, 1 << 16)
            except OSError:
                break
        if b"PID" in text:
            end = min(end, time.monotonic() + 0.3)  # for the rest of the table
    if keys:
        os.write(ours, keys)
    try:
        process.wait(10 if keys else 0.3)
        ended = True
    except subprocess.TimeoutExpired:
        ended = False
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            tell(False, f"SIGTERM ends it (TERM={term}, {columns} columns)")
            process.kill()
    os.close(ours)
    screen = Screen(rows, columns)
    try:
        screen.feed(text.decode())
    except UnicodeDecodeError:
        tell(False, f"{columns} columns: cut inside of a character")
    return text, ended, [line for line in screen.lines() if line]


members = [member(f"job-{i}") for i in range(60)]
lines = top()[2]
tell(len(lines) == 24 and "60 processes" in lines[0] and "PROGRAM" in lines[1] and " of 60 lines" in lines[-1],
     f"24 rows, 60 processes: {len(lines)} lines at a time, the head first")
text, _, _ = top(term="dumb")
tell(b"\x1b" not in text and text.count(b"\n") == 23, f"TERM=dumb: {text.count(bytes([27]))} escape sequences, {text.count(bytes([10]))} lines")
tell(top(keys=b"q")[1], "q ends it, as its help says (without Enter)")
tell(not top(stdin=subprocess.DEVNULL)[1], "with standard input from /dev/null it goes on")
members.append(member("日本語-プログラム"))
members.append(member("odd\u009b31mname"))
members.append(member("right\u202eto left"))
wide, _, lines = top(rows=90)
tell(b"\xc2\x9b" not in wide and b"\xe2\x80\xae" not in wide,
     "a program's name brings no control characters (C1, direction) to the terminal")
tell(any("日本語" in line for line in lines), "a name of other characters is shown")
before = bad
for columns, term in ((12, "xterm"), (13, "xterm"), (17, "dumb"), (20, "xterm"), (13, "dumb")):
    top(rows=90, columns=columns, term=term)
tell(bad == before, "cut between characters")
for process in members:
    process.kill()
    process.wait()
sys.exit(bad)
