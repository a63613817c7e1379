"""operand_registers.py, on written-down machine code."""

from operand_registers import overwritten_operands, written

PRODUCT = "HGMMA.64x64x16.F32.BF16 R24, R60, gdesc[UR16], R24, gsb0"
WAIT = "WARPGROUP.DEPBAR.LE gsb0, 0x0"


def loop(*body: str) -> list[str]:
    return ["LDS.128 R60, [R2]", ".L_x_1", *body, "@P0 BRA `(.L_x_1)", WAIT, "EXIT"]


def test_what_an_instruction_writes():
    assert written("IMAD R63, R13, 0xe, R22") == {63}
    assert written("@P4 LDG.E.128.CONSTANT R128, desc[UR40][R6.64]") == {128, 129, 130, 131}
    assert written("IMAD.WIDE R74, R75, 0x10, R6") == {74, 75}
    assert written("SHFL.IDX PT, R3, R2, RZ, 0x1f") == {3}
    assert written(PRODUCT) == set(range(24, 56))
    for instruction in [
        "ISETP.NE.AND P0, PT, R63, RZ, PT",
        "STS [R63], R60",
        "BRX R48 -0x7780",
        "LOP3.LUT P0, RZ, R60, 0x1f, RZ, 0xc0, !PT",
        WAIT,
        "EXIT",
    ]:
        assert written(instruction) == set(), instruction


def test_an_operand_written_after_the_wait_is_none_of_them():
    assert not overwritten_operands(loop(PRODUCT, "LDS R20, [R3]", WAIT, "SEL R63, R20, R1, P1"))


def test_an_operand_written_before_the_wait_is_found():
    address = "IMAD R63, R13, 0xe, R22"
    assert overwritten_operands(loop(PRODUCT, address, WAIT)) == [f"{PRODUCT}: {address}"]


def test_it_is_found_at_the_beginning_of_the_next_round():
    load = "LDS.64 R60, [R3]"
    assert overwritten_operands(loop(load, WAIT, PRODUCT)) == [f"{PRODUCT}: {load}"]


def test_a_wait_for_all_but_the_last_leaves_the_operand_of_the_last():
    before = PRODUCT.replace("R60", "R56")
    wait = WAIT.replace("0x0", "0x1")
    assert not overwritten_operands([before, PRODUCT, wait, "MOV R56, R1", WAIT, "EXIT"])
    found = overwritten_operands([before, PRODUCT, wait, "MOV R60, R1", WAIT, "EXIT"])
    assert found == [f"{PRODUCT}: MOV R60, R1"]


def test_instructions_of_a_group_are_waited_for_together():
    first = PRODUCT.removesuffix(", gsb0")
    assert overwritten_operands([first, "MOV R61, R1", PRODUCT, WAIT, "EXIT"])
    assert not overwritten_operands([first, PRODUCT, WAIT, "MOV R61, R1", "EXIT"])
