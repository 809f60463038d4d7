# SPDX-License-Identifier: Apache-2.0
"""A package with llama.cpp's libraries in lib/: loads a model and generates greedily.

python3 -m llama_cpp MODEL PROMPT N: one line of JSON with the devices and the tokens.

Parameters are opaque here: llama.cpp's own defaults, in more room than they take. The x86-64 ABI passes and
returns such a structure in memory, so that a larger one holds the same.
"""
import ctypes
import json
import os
import sys

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")


class Opaque(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint64 * 128)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32)] + [(name, ctypes.c_void_p) for name in (
        "token", "embd", "pos", "n_seq_id", "seq_id", "logits")]


def library(name):
    return ctypes.CDLL(os.path.join(LIB, name), mode=ctypes.RTLD_GLOBAL)


def function(lib, name, returns, *takes):
    f = getattr(lib, name)
    f.restype, f.argtypes = returns, takes
    return f


def main(model_path, prompt, n):
    pointer, text, i32 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
    base, ggml, llama = map(library, ("libggml-base.so.0", "libggml.so.0", "libllama.so.0"))
    function(ggml, "ggml_backend_load_all_from_path", None, text)(LIB.encode())
    function(llama, "llama_backend_init", None)()
    get = function(ggml, "ggml_backend_dev_get", pointer, ctypes.c_size_t)
    named = function(base, "ggml_backend_dev_name", text, pointer)
    devices = [named(get(i)).decode() for i in range(function(ggml, "ggml_backend_dev_count", ctypes.c_size_t)())]

    model = function(llama, "llama_model_load_from_file", pointer, text, Opaque)(
        model_path.encode(), function(llama, "llama_model_default_params", Opaque)())
    context = function(llama, "llama_init_from_model", pointer, pointer, Opaque)(
        model, function(llama, "llama_context_default_params", Opaque)())
    if not model or not context:
        sys.exit("no model, or no context")
    vocab = function(llama, "llama_model_get_vocab", pointer, pointer)(model)
    size = function(llama, "llama_vocab_n_tokens", i32, pointer)(vocab)
    tokenize = function(llama, "llama_tokenize", i32, pointer, text, i32, pointer, i32, ctypes.c_bool, ctypes.c_bool)
    one = function(llama, "llama_batch_get_one", Batch, pointer, i32)
    decode = function(llama, "llama_decode", i32, pointer, Batch)
    logits = function(llama, "llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), pointer, i32)

    tokens = (i32 * 64)()
    count = tokenize(vocab, prompt.encode(), len(prompt), tokens, 64, True, False)
    made = []
    for _ in range(n):
        if decode(context, one(tokens, count)) != 0:
            sys.exit("llama_decode has failed")
        row = logits(context, -1)
        tokens[0], count = max(range(size), key=row.__getitem__), 1
        made.append(tokens[0])
    print(json.dumps({"devices": devices, "tokens": made}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
