// SPDX-License-Identifier: Apache-2.0
//
// node_llama.cjs FOLDER MODEL [FLASH:KEYS:VALUES]...: node-llama-cpp's addon as its own
// JavaScript uses it, without the packages that it wants besides: loads the backends in
// the same order, loads the model with all layers on the GPU, and generates greedily.
// Prints one line of JSON; with settings one for each, of the same made-up prompt: flash
// attention on or off, and the types of the cache's keys and values, such as off:f16:f16.
// One that this addon does not know is `absent`. --judge SETTING TOKEN,... instead: how far the
// tokens of that text are from those that the model finds most likely. --logs SETTING...: the
// logarithm of each token's probability after the prompt, and after each of some more tokens.
'use strict';
const fs = require('fs');
const path = require('path');
const [folder, model_path, ...settings] = process.argv.slice(2);
const judged = settings[0] === '--judge' ? settings.splice(0, 3) : null;
const logs = settings[0] === '--logs' && settings.shift();
const TYPES = { f16: 1, q8_0: 8 };

// What the addon says: tokens and probabilities by turns. By token.
function logs_of(probabilities) {
    const logs = new Map();
    for (let i = 0; i < probabilities.length; i += 2) logs.set(probabilities[i], Math.log(probabilities[i + 1]));
    return logs;
}

// How much less likely than the most likely token this one is, in standard deviations of all
// logits: those are the logarithms, but for what all have in common.
function distance(probabilities, token) {
    const logs = logs_of(probabilities);
    const all = [...logs.values()];
    const mean = all.reduce((sum, x) => sum + x, 0) / all.length;
    const deviation = Math.sqrt(all.reduce((sum, x) => sum + (x - mean) ** 2, 0) / all.length);
    return (Math.max(...all) - logs.get(token)) / deviation;
}

// What it returns: where the largest `distance` of a text is asked for, that; or the logarithms after
// the tokens and after each of `more`; or n tokens that follow.
async function generate(b, model, tokens, options, { text, more, n }) {
    const context = new b.AddonContext(model, { contextSize: 256, batchSize: 64, sequences: 1, threads: 1, ...options });
    if (!(await context.init())) throw new Error('no context');
    const sampler = new b.AddonSampler(model);
    sampler.applyConfig({ temperature: 0 });
    const given = text || more;
    const made = [];
    for (let i = 0, at = 0; i < (given ? given.length : n); i++) {
        context.initBatch(tokens.length);
        const [logits] = context.addToBatch(0, at, tokens, Uint32Array.of(tokens.length - 1));
        await context.decodeBatch();
        const said = await context.sampleToken(logits, sampler, ...(given ? [true] : []));
        if (text) made.push(distance(said[1], text[i]));
        else if (more) made.push([...logs_of(said[1])].sort(([a], [b]) => a - b).map(([, log]) => log));
        else made.push(said);
        at += tokens.length;
        tokens = Uint32Array.of(given ? given[i] : said);
    }
    await context.dispose();
    return text ? Math.max(...made) : made;
}

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
    const devices = b.getGpuDeviceInfo().deviceNames;
    if (settings.length === 0 && !judged) {
        const tokens = model.tokenize('The quick brown fox', false);
        const made = await generate(b, model, tokens, {}, { n: 12 });
        console.log(JSON.stringify({ devices, vram: b.getGpuVramInfo().total, made }));
    }
    const prompt = Uint32Array.from({ length: 19 }, (_, i) => 3 + (i * 37) % 120);
    const chooses = fs.readFileSync(addon).includes('kvCacheKeyType');
    const options_of = (setting) => {
        const [flash, keys, values] = setting.split(':');
        const types = chooses ? { kvCacheKeyType: TYPES[keys], kvCacheValueType: TYPES[values] } : {};
        return chooses || keys + values === 'f16f16' ? { flashAttention: flash === 'on', ...types } : null;
    };
    for (const setting of settings) {
        const options = options_of(setting);
        const asked = logs ? { more: [5, 16, 27, 38] } : { n: 24 };
        const result = options && (await generate(b, model, prompt, options, asked));
        console.log(JSON.stringify({ setting, ...(options ? { devices, [logs ? 'logs' : 'made']: result } : { absent: true }) }));
    }
    if (judged) {
        const text = judged[2].split(',').map(Number);
        console.log((await generate(b, model, prompt, options_of(judged[1]), { text })).toFixed(4));
    }
    await model.dispose();
    await b.dispose();
}
main().catch((e) => { console.error(e); process.exit(1); });
