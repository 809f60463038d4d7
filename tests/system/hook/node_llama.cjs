// SPDX-License-Identifier: Apache-2.0
//
// node-llama-cpp's addon as its own JavaScript uses it, without the packages that it wants besides:
// loads the backends in the same order, and the model with all layers on the GPU.
//
//   node_llama.cjs FOLDER MODEL
//       generates greedily; one line of JSON
//   node_llama.cjs FOLDER --texts FLASH:KEYS:VALUES[:BATCH],... MODEL...
//       the same after a made-up prompt, a line for each model and setting: flash attention on or
//       off, the types of the cache's keys and values, such as off:f16:f16, and how many tokens a
//       batch has at most (64). One that this addon does not know is `absent`. A line before them
//       says which model begins; of one that does not load there are no others.
//   node_llama.cjs FOLDER --logs SETTING,... MODEL...
//       such lines with the logarithm of each token's probability (null: not a number) after the
//       prompt, and after each of some more tokens
//   node_llama.cjs FOLDER --judge SETTING TOKEN,... MODEL
//       how far the tokens of that text are from those that the model finds most likely
'use strict';
const fs = require('fs');
const path = require('path');
const folder = process.argv[2];
const asked = process.argv.slice(3);
const ASKED = { '--texts': { n: 24 }, '--logs': { more: [5, 16, 27, 38] } };
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
    const batch = options.batchSize || 64;
    const context = new b.AddonContext(model, { contextSize: 256, batchSize: batch, sequences: 1, threads: 1, ...options });
    if (!(await context.init())) throw new Error('no context');
    const sampler = new b.AddonSampler(model);
    sampler.applyConfig({ temperature: 0 });
    const given = text || more;
    const made = [];
    for (let i = 0, at = 0; i < (given ? given.length : n); i++) {
        for (; tokens.length > batch; tokens = tokens.subarray(batch), at += batch) {
            context.initBatch(batch);
            context.addToBatch(0, at, tokens.subarray(0, batch), Uint32Array.of());
            await context.decodeBatch();
        }
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

// The addon's options for a setting, or null.
function options_of(setting, addon) {
    const chooses = fs.readFileSync(addon).includes('kvCacheKeyType');
    const [flash, keys, values, batch] = setting.split(':');
    const sizes = batch ? { batchSize: Number(batch) } : {};
    const types = chooses ? { kvCacheKeyType: TYPES[keys], kvCacheValueType: TYPES[values] } : {};
    return chooses || keys + values === 'f16f16' ? { flashAttention: flash === 'on', ...types, ...sizes } : null;
}

const show = (what) => console.log(JSON.stringify(what));

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
    const [how, settings, ...rest] = asked[0].startsWith('--') ? asked : ['', '', asked[0]];
    const judged = how === '--judge' && rest.shift().split(',').map(Number);
    const prompt = Uint32Array.from({ length: 19 }, (_, i) => 3 + (i * 37) % 120);
    for (const name of rest) {
        if (how in ASKED) show({ model: name, begins: true });
        const model = new b.AddonModel(name, { addonExports: b, gpuLayers: 99, useMmap: true });
        if (!(await model.init())) {
            if (how in ASKED) continue;
            throw new Error('the model does not load');
        }
        const devices = b.getGpuDeviceInfo().deviceNames;
        if (how === '') {
            const tokens = model.tokenize('The quick brown fox', false);
            show({ devices, vram: b.getGpuVramInfo().total, made: await generate(b, model, tokens, {}, { n: 12 }) });
        }
        for (const setting of settings.split(',').filter(Boolean)) {
            const options = options_of(setting, addon);
            const what = judged ? { text: judged } : ASKED[how];
            const said = options && (await generate(b, model, prompt, options, what));
            if (judged) console.log(said.toFixed(4));
            else if (!options) show({ model: name, setting, absent: true });
            else show({ model: name, setting, devices, [how === '--logs' ? 'logs' : 'made']: said });
        }
        await model.dispose();
    }
    await b.dispose();
}
main().catch((e) => { console.error(e); process.exit(1); });
