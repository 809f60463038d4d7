#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# guest.sh [ROW]...: what run.sh runs in the VM: the rows of the table `lines`, and some more below. What
# they do is in rows.sh. /mnt/share/passed gets a line for each row that has passed.
set -uo pipefail
SHARE=/mnt/share
unset GGML_VK_VISIBLE_DEVICES APIR_LOG # the host's
read -ra wanted <<<"$*"
# shellcheck source=tests/vm/engines/lib.sh
. tests/vm/engines/lib.sh
# shellcheck source=tests/vm/ramalama/rows.sh
. tests/vm/ramalama/rows.sh

cp -a "$SHARE/root/." /
mount --make-rshared /
sed -i 's|^additionalimagestores = .*|additionalimagestores = ["/mnt/store", "/mnt/remoting"]|' \
    /etc/containers/storage.conf
apir cdi generate || exit 1
mkdir -p /srv/models
cp /mnt/models/first.gguf "$MODEL"
# llama-perplexity wants two times the context, in tokens.
for ((i = 0; i < 300; i++)); do
    echo "The $i words of this sample follow one another."
done >/srv/models/sample.txt

# The table.
rows=()
declare -A check what types line
# shellcheck disable=SC2162 # the backslash that joins lines is meant
while read key value; do
    # What a line goes on with is indented.
    value=$(tr -s ' ' <<<"$value")
    case $key in
    '' | '#'*) ;;
    row) name=${value% *} && rows+=("$name") && check[$name]=${value#* } ;;
    what) what[$name]=$value ;;
    typed) types[$name]=$value ;;
    runs) line[$name]=$value ;;
    *) echo "lines: $key is no word of it" && exit 2 ;;
    esac
done <tests/vm/ramalama/lines

# And the rows that are no line of the table. add NAME WHAT: the function NAME (with _ for -).
add() { rows+=("$1") && check[$1]=${1//-/_} && what[$1]=$2; }
add quadlet 'docs/ramalama/llama.container, as the generator of podman makes a service of it'
add kube 'docs/ramalama/llama.yaml'
add kube-other-limit "the same with a plain image and the limit that ramalama writes: its CPU"
if [[ -d $RAMALAMA ]]; then
    add generated-kube 'what ramalama --generate kube writes, its limit replaced, a plain image'
    add generated-quadlet 'what ramalama --generate quadlet --add-to-unit writes, a plain image'
fi

# Where ramalama itself is there, it finds an engine that notes what it was told before it does so.
if [[ -d $RAMALAMA ]]; then
    mkdir -p /run/ramalama/bin
    cat >/run/ramalama/bin/podman <<'END'
#!/bin/bash
[[ $1 != run ]] || echo "podman $*" >>/run/ramalama/ran
exec /usr/bin/podman "$@"
END
    chmod +x /run/ramalama/bin/podman
fi
# Without ramalama there is no store that has extracted the template.
cat >/run/template <<'END'
{% for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{%- endfor %}{{ '<|im_start|>assistant\n' }}
END

[[ ${#wanted[@]} -eq 0 ]] || for name in "${wanted[@]}"; do
    [[ -n ${check[$name]-} ]] || { echo "no row is called $name; there are: ${rows[*]}" && exit 2; }
done
[[ ${#wanted[@]} -gt 0 ]] || wanted=("${rows[@]}")
printf '%s\n' "${wanted[@]}" >"$SHARE/plan"
failed=0
for name in "${wanted[@]}"; do
    typed=${types[$name]-} runs=${line[$name]-} alias=$MODEL
    began=$SECONDS
    (
        set -e
        work=$(mktemp -d /run/row.XXXXXX)
        trap finish EXIT
        at_end "rm -rf $work"
        host_mark
        rm -f /run/ramalama/ran
        "${check[$name]}"
        [[ ! -d $RAMALAMA || -z $runs ]] || as_in_the_table
    ) >"$SHARE/log/$name.log" 2>&1
    rc=$?
    if [[ $rc -eq 0 ]]; then
        echo "$name" >>"$SHARE/passed"
        printf 'pass  %-20s %4d s  %s\n' "$name" $((SECONDS - began)) "${what[$name]}"
    else
        failed=1
        printf 'FAIL  %-20s %4d s  %s\n' "$name" $((SECONDS - began)) "${what[$name]}"
        tail -n 25 "$SHARE/log/$name.log" | sed 's/^/    | /'
        podman rm --force --all --time 0 >/dev/null 2>&1
    fi
done
exit "$failed"
