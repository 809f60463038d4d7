// SPDX-License-Identifier: Apache-2.0
//
// node_static.cjs FOLDER MODEL [CALLER]: the addon of llama.node, which has its ggml in it, as its own JavaScript
// uses it: loads the model with all layers on the GPU and generates greedily. CALLER is an addon that
// calls that ggml's loader of backends, which this one never does. Prints one line of JSON.
'use strict';
const path = require('path');
const [folder, model, caller] = process.argv.slice(2);
process.env.NODE_STATIC_ADDON = require.resolve(path.join(folder, 'index.node'));
const { LlamaContext } = require(process.env.NODE_STATIC_ADDON);

async function main() {
    LlamaContext.toggleNativeLog(false);
    if (caller) require(caller);
    const devices = JSON.parse(LlamaContext.getBackendDevicesInfo()).map((device) => device.deviceName);
    const context = new LlamaContext({ model, n_gpu_layers: 99, n_ctx: 256, n_threads: 1, n_parallel: 1 });
    const { text } = await context.completion(
        { prompt: 'The quick brown fox', temperature: 0, top_k: 1, seed: 1, n_predict: 12, ignore_eos: true }, () => {});
    await context.release();
    console.log(JSON.stringify({ devices, text }));
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
