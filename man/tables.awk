# SPDX-License-Identifier: Apache-2.0
# A manual page with tables of docs/: the line "@table FILE WORD N" becomes the Nth table of FILE whose
# first column is headed WORD. What a message or an event means is written once.

function plain(cell) {
    gsub(/^ +| +$/, "", cell)
    gsub(/`/, "", cell)
    gsub(/[][\\_*<#]/, "\\\\&", cell)
    return cell == "" ? "-" : cell
}

function row(line, mark,    cells, n, i) {
    sub(/^\|/, "", line)
    sub(/\|[ ]*$/, "", line)
    n = split(line, cells, "|")
    for (i = 1; i <= n; i++)
        print (i == 1 ? "|" : ":") mark " " plain(cells[i])
}

function table(file, word, nth,    line, seen, inside) {
    while ((getline line < file) > 0) {
        if (line !~ /^\|/) {
            if (inside)
                break
            continue
        }
        if (!inside && index(line, "| " word " |") == 1 && ++seen == nth) {
            inside = 1
            row(line, "[")
        } else if (inside && line !~ /^\|-/) {
            row(line, " ")
        }
    }
    close(file)
    if (!inside) {
        print "no table of " word " in " file > "/dev/stderr"
        exit 1
    }
}

/^@table / { table($2, $3, $4); next }
{ print }
