// SPDX-License-Identifier: Apache-2.0
//
// node_llama.cjs FOLDER MODEL: node-llama-cpp's addon as its own JavaScript uses it,
// without the packages that it wants besides: loads the backends in the same order,
// loads the model with all layers on the GPU, and generates greedily. Prints one line
// of JSON.
'use strict';
const path = require('path');
const [folder, model_path] = process.argv.slice(2);

async function main() {
    const addon = path.join(folder, 'llama-addon.node');
    const b = require(addon);
    b.setLoggerLogLevel(0);
    b.setLogger(() => {});
    b.loadBackends();
    if (!b.getGpuType()) {
        b.loadBackends(folder);
        if (!b.getGpuType()) b.loadBackends(path.join(folder, 'fallback'));
    }
    await b.init();
    const model = new b.AddonModel(model_path, { addonExports: b, gpuLayers: 99, useMmap: true });
    if (!(await model.init())) throw new Error('the model does not load');
    const context = new b.AddonContext(model, { contextSize: 256, batchSize: 64, sequences: 1, threads: 1 });
    if (!(await context.init())) throw new Error('no context');
    const sampler = new b.AddonSampler(model);
    sampler.applyConfig({ temperature: 0 });
    let tokens = model.tokenize('The quick brown fox', false), at = 0;
    const made = [];
    for (let i = 0; i < 12; i++) {
        context.initBatch(tokens.length);
        const [logits] = context.addToBatch(0, at, tokens, Uint32Array.of(tokens.length - 1));
        await context.decodeBatch();
        const token = await context.sampleToken(logits, sampler);
        at += tokens.length;
        made.push(token);
        tokens = Uint32Array.of(token);
    }
    console.log(JSON.stringify({
        devices: b.getGpuDeviceInfo().deviceNames,
        vram: b.getGpuVramInfo().total,
        made,
    }));
    await context.dispose();
    await model.dispose();
    await b.dispose();
}
main().catch((e) => { console.error(e); process.exit(1); });
