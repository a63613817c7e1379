"""Where a kernel's machine code writes a register that a matrix instruction still reads.

A matrix instruction whose first operand is in registers reads them while it runs, and nothing but a
wait for it tells when it is done. The compiler, which chooses the registers, may put the next
operand or an address there too early: then some products are of other bits, now and then.
"""

import re

MATRIX_INSTRUCTION = re.compile(r"HGMMA\.\S* R\d+, R(\d+), ")
WAIT = re.compile(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x([0-9a-f]+)")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")
# Their first operand is read.
WITHOUT_RESULT = ("BAR", "BRX", "CALL", "NANOSLEEP", "RET", "WARPSYNC")
OPERAND_REGISTERS = 4


def written(instruction: str) -> set[int]:
    """The registers that an instruction writes."""
    opcode, _, rest = re.sub(r"^@\S+\s+", "", instruction).partition(" ")
    name = opcode.partition(".")[0]
    operands = [operand.strip() for operand in rest.split(",")]
    if re.fullmatch(r"P\d|PT", operands[0]):
        del operands[0]
    first = re.match(r"R(\d+)\b", operands[0]) if operands else None
    if not first or name in WITHOUT_RESULT:
        return set()
    count = 1
    if columns := re.match(r"HGMMA\.64x(\d+)x", opcode):
        count = int(columns[1]) // 2
    elif ".128" in opcode or name == "HMMA" or (name == "LDSM" and ".4" in opcode):
        count = 4
    elif re.search(r"\.64\b|\.WIDE|^D(ADD|MUL|FMA)|^LDSM.*\.2|^CS2R(?!\.32)", opcode):
        count = 2
    return set(range(int(first[1]), int(first[1]) + count))


class Code:
    """A kernel's instructions, and where each is followed by which."""

    def __init__(self, lines: list[str]):
        self.instructions, self.places = [], {}
        for line in lines:
            if line.startswith(".L"):
                self.places[line] = len(self.instructions)
            else:
                self.instructions.append(line.strip())
        targets = {target for line in lines for target in TARGET.findall(line)}
        of_tables = [at for label, at in self.places.items() if label not in targets]
        self.targets_of_tables = [at for at in of_tables if at < len(self.instructions)]

    def next_places(self, place: int) -> list[int]:
        instruction = self.instructions[place]
        bare = re.sub(r"^@\S+\s+", "", instruction)
        following = [place + 1] if place + 1 < len(self.instructions) else []
        if bare.startswith("BRX"):
            return self.targets_of_tables
        if bare.startswith("BRA"):
            # A condition stands in front, or between the name and the target.
            always = re.fullmatch(r"BRA `\(\S+\)", instruction)
            return [self.places[TARGET.search(bare)[1]], *([] if always else following)]
        ends = re.match(r"EXIT|RET", instruction)
        return [] if ends else following

    def overwritten_after(self, place: int, operand: set[int]) -> list[str]:
        """What writes the operand of the matrix instruction at a place before it was waited for."""

        def ends_group(at: int) -> bool:
            return "HGMMA" in self.instructions[at] and "gsb0" in self.instructions[at]

        found = []
        # By places and groups of matrix instructions, from its own on, that have ended before.
        todo, seen = [(after, int(ends_group(place))) for after in self.next_places(place)], set()
        while todo:
            at, groups = todo.pop()
            if (at, groups) in seen:
                continue
            seen.add((at, groups))
            wait = WAIT.search(self.instructions[at])
            if wait and groups > int(wait[1], 16):
                continue
            if operand & written(self.instructions[at]):
                found.append(self.instructions[at])
            groups = min(groups + ends_group(at), 8)
            todo += [(after, groups) for after in self.next_places(at)]
        return found


def overwritten_operands(lines: list[str]) -> list[str]:
    """Each matrix instruction of a kernel whose operand is overwritten, and by what."""
    code, found = Code(lines), []
    for place, instruction in enumerate(code.instructions):
        if operand := MATRIX_INSTRUCTION.search(instruction):
            first = int(operand[1])
            registers = set(range(first, first + OPERAND_REGISTERS))
            for writer in code.overwritten_after(place, registers):
                found.append(f"{instruction}: {writer}")
    return found
