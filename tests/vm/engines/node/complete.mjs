// SPDX-License-Identifier: Apache-2.0
//
// What a program with node-llama-cpp does: loads the model, all layers on a GPU if
// it has one, and completes a text. One line of JSON on the standard output.
import {getLlama, LlamaCompletion} from "node-llama-cpp";

const llama = await getLlama({build: "never", progressLogs: false});
const model = await llama.loadModel({modelPath: "/models/first.gguf", gpuLayers: "max"});
const context = await model.createContext({contextSize: 256, batchSize: 16});
const completion = new LlamaCompletion({contextSequence: context.getSequence()});
const text = await completion.generateCompletion("Hello, world", {maxTokens: 8, temperature: 0});
console.log(JSON.stringify({
    devices: await llama.getGpuDeviceNames(),
    layers: model.gpuLayers,
    of: model.fileInsights.totalLayers,
    text
}));
await llama.dispose();
