/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of tensors, by their numbers in GGUF, a file format: they are the same in every ggml,
 * and those of graphs and messages.
 */
#pragma once

enum apir_type {
    APIR_TYPE_F32 = 0,
    APIR_TYPE_F16 = 1,
    APIR_TYPE_Q4_0 = 2,
    APIR_TYPE_Q4_1 = 3,
    APIR_TYPE_Q5_0 = 6,
    APIR_TYPE_Q5_1 = 7,
    APIR_TYPE_Q8_0 = 8,
    APIR_TYPE_Q8_1 = 9,
    APIR_TYPE_Q2_K = 10,
    APIR_TYPE_Q3_K = 11,
    APIR_TYPE_Q4_K = 12,
    APIR_TYPE_Q5_K = 13,
    APIR_TYPE_Q6_K = 14,
    APIR_TYPE_Q8_K = 15,
    APIR_TYPE_IQ2_XXS = 16,
    APIR_TYPE_IQ2_XS = 17,
    APIR_TYPE_IQ3_XXS = 18,
    APIR_TYPE_IQ1_S = 19,
    APIR_TYPE_IQ4_NL = 20,
    APIR_TYPE_IQ3_S = 21,
    APIR_TYPE_IQ2_S = 22,
    APIR_TYPE_IQ4_XS = 23,
    APIR_TYPE_I8 = 24,
    APIR_TYPE_I16 = 25,
    APIR_TYPE_I32 = 26,
    APIR_TYPE_I64 = 27,
    APIR_TYPE_F64 = 28,
    APIR_TYPE_IQ1_M = 29,
    APIR_TYPE_BF16 = 30,
    APIR_TYPE_TQ1_0 = 34,
    APIR_TYPE_TQ2_0 = 35,
    APIR_TYPE_MXFP4 = 39,
    APIR_TYPE_NVFP4 = 40,
    APIR_TYPE_Q1_0 = 41,
    APIR_TYPE_Q2_0 = 42,
};
