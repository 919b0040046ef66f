# SPDX-License-Identifier: Apache-2.0
# Make's variables of mk/layers and mk/layers.known: FOLDERS, the highest last; SEES_folder, what is linked with it, itself
# first; FOREIGN_folder, the foreign libraries of all these.
function all_of(folder, of, word, n, i) {
    if (done[folder, of]++)
        return
    seen[of] = seen[of] " " folder
    foreign[of] = foreign[of] " " own[folder]
    n = split(sees[folder], word, " ")
    for (i = 1; i <= n; i++)
        all_of(word[i], of)
}
/^#/ || NF == 0 { next }
FILENAME ~ /known$/ {
    name = $2
    sub(/:$/, "", name)
    if ($1 == "call")
        for (i = 3; i <= NF; i++)
            sees[name] = sees[name] " " $i
    next
}
{
    name = $1
    sub(/:$/, "", name)
    folders = folders " " name
    line = $0
    sub(/^[^:]*:/, "", line)
    n = split(line, half, "|")
    sees[name] = half[1]
    own[name] = n > 1 ? half[2] : ""
}
END {
    print "FOLDERS :=" folders
    n = split(folders, list, " ")
    for (i = 1; i <= n; i++) {
        all_of(list[i], list[i])
        print "SEES_" list[i] " :=" seen[list[i]]
        print "FOREIGN_" list[i] " :=" foreign[list[i]]
        print "OWN_" list[i] " :=" own[list[i]]
    }
}
