/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/server/limits/user.h"

#include <stdlib.h>

#include "backend/server/loop.h"

struct server_user *server_users_get(struct server_users *users, uint32_t uid)
{
    const int64_t now = server_now_ms();
    for (struct server_user **at = &users->first, *user; (user = *at);) {
        if (user->uid == uid)
            return user;
        if (user->contexts || user->leaving || user->books || user->paid_until_ms > now) {
            at = &user->next;
        } else {
            *at = user->next;
            free(user);
        }
    }
    struct server_user *user = malloc(sizeof(*user));
    if (user) {
        *user = (struct server_user){.next = users->first, .uid = uid};
        users->first = user;
    }
    return user;
}

void server_users_fini(struct server_users *users)
{
    for (struct server_user *user; (user = users->first); free(user))
        users->first = user->next;
}

bool server_user_may_start(struct server_user *user)
{
    const int64_t now = server_now_ms();
    if (user->paid_until_ms < now)
        user->paid_until_ms = now;
    if (user->paid_until_ms - now >= SERVER_STARTS_AT_ONCE * SERVER_STARTS_EVERY_MS)
        return false;
    user->paid_until_ms += SERVER_STARTS_EVERY_MS;
    return true;
}
