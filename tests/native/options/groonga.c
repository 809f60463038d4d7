/* SPDX-License-Identifier: Apache-2.0
 *
 * groonga.so: for groonga of Debian, which is made for an older libllama. What it says of
 * embeddings is not where libllama looks for it, natively too, and each of its vectors fails for
 * want of them.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include <llama.h>

__attribute__((visibility("default"))) struct llama_context *
llama_init_from_model(struct llama_model *model, struct llama_context_params params)
{
    struct llama_context *(*init)(struct llama_model *, struct llama_context_params);

    *(void **)&init = dlsym(RTLD_NEXT, "llama_init_from_model");
    if (!init)
        abort();
    /* Only what makes vectors has a way of pooling. */
    params.embeddings |= params.pooling_type > LLAMA_POOLING_TYPE_NONE;
    return init(model, params);
}
