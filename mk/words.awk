# SPDX-License-Identifier: Apache-2.0
# Make's variable SAYS_file of each file that has a line "/* build: WORD... */" near its beginning (mk/libraries.mk).
FNR <= 4 && /^\/\* build: .* \*\/$/ {
    sub(/^\/\* build: /, "")
    sub(/ \*\/$/, "")
    print "SAYS_" FILENAME " := " $0
}
