#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The host's configuration as apir config check tells it.

load ../system.bash

setup() {
    common_setup
    CHECK=("$OUT/cdi/apir" config check)
    unset APIR_CONFIG
}

@test "config: what holds, and where it is from" {
    printf '{ "device_memory_mib": 2048,\n  "devices": ["CPU"], "stock_server": false, "allow_users": [7] }\n' >"$T/c.json"
    run -0 --separate-stderr "${CHECK[@]}" "$T/c.json"
    [[ ${lines[0]} == "$T/c.json: valid" && -z $stderr ]]
    grep -Eq '^ +device_memory_mib +2048 +file$' <<<"$output"
    grep -Eq '^ +devices +\["CPU"\] +file$' <<<"$output"
    grep -Eq '^ +seconds_per_graph +600 +default$' <<<"$output"
    run -0 "${CHECK[@]}" --json "$T/c.json"
    jq -e '.valid and .keys.device_memory_mib == {"value": 2048, "from": "file"} and
           .keys.stock_server.value == false and .keys.allow_users.value == [7] and
           .keys.limits_dir == {"value": null, "from": "default"}' <<<"$output"
    # The file that a server would read.
    run -0 env APIR_CONFIG="$T/c.json" "${CHECK[@]}"
    [[ ${lines[0]} == "$T/c.json: valid" ]]
}

@test "config: errors have the path and the key, or the line" {
    printf '{\n  "device_memory_mib":\n "2048" }\n' >"$T/c.json"
    run -1 --separate-stderr "${CHECK[@]}" "$T/c.json"
    [[ -z $output && ${#stderr_lines[@]} -eq 1 ]]
    [[ $stderr == *"$T/c.json: \"device_memory_mib\" must be a whole number"* ]]
    run -1 "${CHECK[@]}" --json "$T/c.json"
    jq -e '.valid == false and (.error | contains("device_memory_mib"))' <<<"$output"

    printf '{\n  "threads": 1,\n}\n' >"$T/c.json"
    gives 1 "$T/c.json: line 3, byte " "${CHECK[@]}" "$T/c.json"
    printf '{ "mps": "required", "mps_control": "/nonexistent/mps" }\n' >"$T/c.json"
    gives 1 "mps_control: /nonexistent/mps: No such file or directory" "${CHECK[@]}" "$T/c.json"
    printf '{ "mps": "auto", "mps_control": "/nonexistent/mps" }\n' >"$T/c.json"
    "${CHECK[@]}" "$T/c.json"
    printf '{ "allow_users": ["no-such-user"] }\n' >"$T/c.json"
    gives 1 "no user no-such-user" "${CHECK[@]}" "$T/c.json"
    gives 3 "$T/none.json: No such file" "${CHECK[@]}" "$T/none.json"
}

@test "config: apir-backend.json(5) has every key, docs/install.md too, and the example is valid" {
    mandoc -T ascii docs/man/apir-backend.json.5 | sed 's/.\x08//g' >"$T/page"
    local key n=0
    for key in $("${CHECK[@]}" --json | jq -r '.keys | keys[]'); do
        grep -Eq "^ +([a-z_]+, )?$key(,| |\$)" "$T/page" || { echo "apir-backend.json(5): $key"; false; }
        [[ $key == worker ]] || grep -q "^| .*\`$key\`.* |" docs/install.md || { echo "docs/install.md: $key"; false; }
        n=$((n + 1))
    done
    [[ $n -ge 20 ]]
    sed -n '/^EXAMPLES/,/^SEE ALSO/{/{/,/}/p}' "$T/page" >"$T/example.json"
    run -0 "${CHECK[@]}" "$T/example.json"
    grep -Eq 'max_contexts_per_device +4 +file' <<<"$output"
}
