"""Names that no folder of a group or of a member may have."""

HOSTILE = [
    *("", ".", "..", "a/b", "../a", "/a", "a\\b", "a\0b", "a\nb", "a b", ".hidden", "-o", "--help"),
    *("a" * 201, "ä", "\u202etxt", "identity", "Identity", "dledger-n0", "DLEDGER-x", "dledger-"),
]
