# SPDX-License-Identifier: Apache-2.0
#
# awk -v out=FOLDER -f blocks.awk FILE.md...: the shell commands of documents.
#
# A block of commands begins with ```sh; the words behind that say who runs it:
#
#   (none)              make check-docs
#   shows: TEXT         the same, and TEXT must be in what it prints
#   background          the same; it goes on until its document ends
#   by: FILE            a test: its lines are in FILE (tests/...)
#   by: make GOAL       lines "make NAME": NAME is a suite of that GOAL, check or nightly
#   not-run: REASON     nobody
#
# Each becomes FOLDER/NNN.sh, and a line "NNN FILE:LINE COMMANDS WHO" on standard output; a command that
# goes on in the next line is one. What is not of this form is named in a line "error FILE:LINE: why".

function error(why) { print "error " FILENAME ":" FNR ": " why }

FNR == 1 && inside { print "error " file ":" line ": a block without end" }
FNR == 1 { inside = 0 }

/^ *```/ && inside {
    if (inside == 2) {
        close(path)
        if (!commands) print "error " file ":" line ": a block without a command"
        printf "%03d %s:%d %d %s\n", n, file, line, commands, who
    }
    inside = 0
    next
}
/^ *```/ {
    inside = 1
    word = $0; sub(/^ *```/, "", word)
    if (word ~ /^(bash|shell|console|sh-session)/) error("commands stand in ```sh")
    if (word !~ /^sh( |$)/) next
    inside = 2; file = FILENAME; line = FNR; commands = 0; goes_on = 0; text = ""
    who = word; sub(/^sh */, "", who)
    if (who !~ /^$|^shows: .|^background$|^by: make (check|nightly)$|^by: tests\/[^ ]+$|^not-run: ./)
        error("who runs it? \"" who "\"")
    if (who == "") who = "run"
    path = sprintf("%s/%03d.sh", out, ++n)
    printf "" >path
    next
}
inside == 2 {
    print >path
    if (!goes_on && text == "" && $0 !~ /^ *(#|$)/) commands++
    goes_on = $0 ~ /\\$/
    # The lines of a here-document are no commands.
    if (text != "" && $0 == text) text = ""
    else if (match($0, /<<-?'?[A-Z]+/)) { text = substr($0, RSTART, RLENGTH); gsub(/[^A-Z]/, "", text) }
    next
}
!inside && /^    +(podman|docker|apir|systemctl|make|qemu-[a-z0-9_-]+|curl|ramalama|llama-[a-z]+) [^ ]/ {
    error("commands stand in ```sh")
}
END { if (inside) print "error " file ":" line ": a block without end" }
