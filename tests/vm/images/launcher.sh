#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Stands in for Ollama's program in an image of its layout: starts llama-server as that does, with that
# environment, and nothing more.
#
#   ollama discover             for each folder of backends its devices, a line "FOLDER: LINE" for each line
#   ollama kill                 the server without a model, killed at its first word
#   ollama serve FOLDER OPTION...   the server with the backend of that folder
lib=/usr/lib/ollama

# The first module in it overrides what the container was given.
with() { # FOLDER
    for module in "$1"/libggml-*; do
        export LD_LIBRARY_PATH="$lib:$1:$base" GGML_BACKEND_PATH="$module"
        return
    done
}
base=$LD_LIBRARY_PATH

# The server without a model, ended by SIGKILL at its first word.
kill_early() {
    rm -f /tmp/said
    mkfifo /tmp/said
    "$lib/llama-server" --port 49200 --host 127.0.0.1 --no-webui --offline >/dev/null 2>/tmp/said &
    head -n 1 /tmp/said >&2
    kill -9 $!
    wait $! || echo "killed: $?"
}

case $1 in
discover)
    last=
    for module in "$lib"/*/*ggml-*; do
        folder=${module%/*}
        [ "$folder" != "$last" ] || continue
        last=$folder
        with "$folder"
        "$lib/llama-server" --list-devices --offline 2>&1 | sed "s|^|$folder: |"
    done
    ;;
kill)
    with "$lib/vulkan"
    kill_early
    ;;
serve)
    with "$2"
    shift 2
    exec "$lib/llama-server" --offline --no-webui --log-verbosity 4 --no-log-prefix --no-log-timestamps \
        --no-jinja --chat-template chatml "$@"
    ;;
esac
