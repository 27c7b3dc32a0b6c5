"""What a terminal shows: the part of a VT100 with xterm's additions that ncurses writes for TERM=xterm."""
import re
import unicodedata

SEQUENCE = re.compile(r"\x1b(?:\[([?>]?)([0-9;]*)([@-~])|[()][0-9A-B]|([=>78MDE]))")


class Screen:
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.region = (0, rows - 1)  # that scrolls: its first and last row
        self.last = " "
        self.rest = ""  # of a sequence that is not whole yet

    def lines(self):
        return ["".join(line).rstrip() for line in self.cells]

    def feed(self, text):
        text, at = self.rest + text, 0
        self.rest = ""
        while at < len(text):
            if text[at] == "\x1b":
                found = SEQUENCE.match(text, at)
                if found is None:
                    if len(text) - at > 32:
                        raise ValueError(f"unknown sequence {text[at:at + 32]!r}")
                    self.rest = text[at:]
                    return
                self.obey(found)
                at = found.end()
            else:
                self.put(text[at])
                at += 1

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.down()
        elif character == "\b":
            self.column = max(self.column - 1, 0)
        elif character == "\t":
            self.column = min(self.column // 8 * 8 + 8, self.columns - 1)
        elif character >= " ":
            wide = unicodedata.east_asian_width(character) in "WF"
            if self.column + 1 + wide > self.columns:  # wraps only now
                self.column = 0
                self.down()
            self.cells[self.row][self.column] = self.last = character
            if wide:
                self.cells[self.row][self.column + 1] = ""
            self.column += 1 + wide

    def down(self):
        if self.row == self.region[1]:
            self.scroll(1)
        else:
            self.row = min(self.row + 1, self.rows - 1)

    def scroll(self, count, first=None):
        """Moves the region's lines, from its first line or from `first` on, up by `count`; down if it is negative."""
        first, last = self.region[0] if first is None else first, self.region[1]
        count = max(min(count, last - first + 1), first - last - 1)
        new = [[" "] * self.columns for _ in range(abs(count))]
        lines = self.cells[first:last + 1]
        self.cells[first:last + 1] = lines[count:] + new if count > 0 else new + lines[:count]

    def obey(self, found):
        private, numbers, final, simple = found.groups()
        values = [int(number or 0) for number in (numbers or "").split(";")]
        first = max(values[0], 1)
        if simple == "M" and self.row == self.region[0]:
            self.scroll(-1)
        elif simple == "M":
            self.row = max(self.row - 1, 0)
        elif simple == "D":
            self.down()
        if final is None or (private and final not in "hl"):
            return
        self.column = min(self.column, self.columns - 1) if final not in "mhl" else self.column
        line = self.cells[self.row]
        if final == "h" and private and values[0] == 1049:
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        elif final in "Hf":
            second = max(values[1], 1) if len(values) > 1 else 1
            self.row, self.column = min(first, self.rows) - 1, min(second, self.columns) - 1
        elif final == "r":
            last = values[1] if len(values) > 1 and values[1] else self.rows
            self.region, self.row, self.column = (first - 1, min(last, self.rows) - 1), 0, 0
        elif final in "ST":
            self.scroll(first if final == "S" else -first)
        elif final in "LM":
            self.scroll(first if final == "M" else -first, self.row)
        elif final == "d":
            self.row = min(first, self.rows) - 1
        elif final == "G":
            self.column = min(first, self.columns) - 1
        elif final == "A":
            self.row = max(self.row - first, 0)
        elif final == "B":
            self.row = min(self.row + first, self.rows - 1)
        elif final == "C":
            self.column = min(self.column + first, self.columns - 1)
        elif final == "D":
            self.column = max(self.column - first, 0)
        elif final == "X":
            end = min(self.column + first, self.columns)
            line[self.column:end] = [" "] * (end - self.column)
        elif final == "@":
            line[self.column:] = ([" "] * first + line[self.column:])[:self.columns - self.column]
        elif final == "P":
            line[self.column:] = (line[self.column + first:] + [" "] * first)[:self.columns - self.column]
        elif final == "K":
            begin, end = ((self.column, self.columns), (0, self.column + 1), (0, self.columns))[values[0]]
            line[begin:end] = [" "] * (end - begin)
        elif final == "J":
            begin, end = ((self.row + 1, self.rows), (0, self.row), (0, self.rows))[values[0]]
            for row in range(begin, end):
                self.cells[row] = [" "] * self.columns
            if values[0] == 0:
                line[self.column:] = [" "] * (self.columns - self.column)
        elif final == "b":
            for _ in range(first):
                self.put(self.last)
        elif final not in "mhltn":
            raise ValueError(f"unknown sequence {found.group()!r}")
