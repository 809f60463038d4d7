# SPDX-License-Identifier: Apache-2.0
#
# What the project promises about speed: a row for each promise about the side `apir`. A metric may end in * for any
# rest: the time of a token hardly depends on how many there are.

def row($case; $name; $what; $kind; $metric; $comparison; $target):
    {$name, $what, $kind, $case, side: "apir", $metric, $comparison, $target};

# The median of its values.
def value($name; $what; $case; $metric; $comparison; $target):
    row($case; $name; $what; "value"; $metric; $comparison; $target);

# To another side, pair by pair.
def ratio($case; $name; $what; $metric; $side; $comparison; $target):
    row($case; "\($case)-\($name)"; "\($case): \($what), of \($side)"; "ratio"; $metric; $comparison; $target)
    + {other: {$case, $side, $metric}};

def gpu($case; $tg):
    ratio($case; "tg"; "generation"; "tg*"; "native"; ">="; $tg),
    ratio($case; "pp512"; "prompt of 512"; "pp512"; "native"; ">="; 0.99),
    ratio($case; "load"; "seconds to load"; "load"; "native"; "<="; 1.1);

# llama.cpp's programs as a user starts them.
def user($case; $name; $what; $metric): ratio($case; $name; $what; $metric; "native"; ">="; 0.95);

# Of memcpy's rate in the same round, of which 9 GB/s are enough.
def link($metric):
    row("vm-link"; "vm-link-\($metric)"; "rate of \($metric), of memcpy's up to 9 GB/s"; "ratio"; $metric; ">="; 1)
    + {other: {case: "vm-link", side: "apir", metric: "memcpy"}, enough: 9};

def targets: [
    value("overhead-p50"; "us added per token, median"; "overhead"; "added-p50"; "<="; 10),
    value("overhead-p99"; "us added per token, p99"; "overhead"; "added-p99"; "<="; 50),
    value("overhead-bytes"; "bytes per token"; "overhead"; "bytes"; "<="; 512),
    ratio("against"; "p50"; "us added per token"; "added-p50"; "before"; "<="; 1.2),
    ratio("stamp-135M"; "tg-rpc"; "generation without computing"; "tg*"; "rpc"; ">"; 1),
    ratio("stamp-135M"; "pp512-rpc"; "prompt without computing"; "pp512"; "rpc"; ">"; 1),
    ratio("cpu-135M"; "tg"; "generation"; "tg*"; "native"; ">="; 0.98),
    ratio("cpu-135M"; "pp128"; "prompt of 128"; "pp128"; "native"; ">="; 0.99),
    ratio("cpu-135M"; "tg-rpc"; "generation"; "tg*"; "rpc"; ">"; 1),
    ratio("cpu-135M"; "pp128-rpc"; "prompt of 128"; "pp128"; "rpc"; ">"; 1),
    gpu("gpu-135M"; 0.98),
    gpu("gpu-1B"; 0.99),
    gpu("gpu-8B"; 0.99),
    ratio("start"; "first"; "seconds to the first token"; "start"; "native"; "<="; 1),
    (("q4_0", "q4_k") | user("default-\(.)"; "tg"; "generation"; "tg*"), user("default-\(.)"; "pp"; "prompt"; "pp128")),
    user("default-q8_0"; "tg"; "generation"; "tg*"),
    user("default-q8_0"; "pp"; "prompt"; "pp16"),
    (("server-1", "server-8", "server-16", "draft", "embeddings") | user(.; "tokens"; "tokens per second"; "server")),
    user("batched"; "tg"; "8 generations at once"; "tg-8"),
    user("batched"; "pp"; "8 prompts at once"; "pp-8"),
    user("depth"; "tg"; "generation after 32k"; "tg*"),
    user("depth"; "pp"; "prompt after 32k"; "pp64"),
    ratio("together-8"; "sum"; "eight at once"; "together"; "native"; ">="; 0.97),
    ratio("gpu-together"; "sum"; "four at once"; "together"; "native"; ">="; 0.97),
    (row("vm-135M"; "vm-135M-added"; "vm-135M: ms added per token"; "added"; "tg*"; "<="; 1.1)
        + {other: {case: "vm-135M", side: "native", metric: "tg*"}}),
    ratio("vm-135M"; "pp512"; "prompt of 512"; "pp512"; "native"; ">="; 0.98),
    value("vm-link-graph1"; "us, graph of one node there and back"; "vm-link"; "graph1"; "<="; 40),
    link("set", "get"),
    value("idle"; "cores burnt by an idle container"; "idle"; "idle"; "<"; 0.005),
    value("vm-idle"; "the same, in the VM"; "vm-idle"; "idle"; "<"; 0.005),
    (row("memory"; "memory-beyond"; "MiB of the worker beyond a native process"; "beyond"; "memory-worker"; "<="; 32)
        + {other: {case: "memory", side: "native", metric: "memory-process"}}),
    row("memory"; "memory-growth"; "MiB that the worker grew after the first tenth"; "growth"; "memory-worker"; "<="; 1)
];
