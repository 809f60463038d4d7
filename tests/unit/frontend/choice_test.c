/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/ggml/choice.h"

#include "tests/lib/unit.h"

static struct choice choices[CHOICE_MAX];

TEST(nothing_chosen_where_no_variable_says_so)
{
    char *const env[] = {"PATH=/bin",        "APIR_DEVICE=x",    "APIR_DEVICE_=x",
                         "APIR_DEVICE_0=",   "APIR_DEVICE_0",    "APIR_DEVICE_a=x",
                         "APIR_DEVICE_1a=x", "APIR_DEVICE_-1=x", "APIR_DEVICE_1234567890=x",
                         "apir_device_0=x",  "XAPIR_DEVICE_0=x", NULL};
    assert_int_equal(choice_read(env, choices), 0);
    char *const none[] = {NULL};
    assert_int_equal(choice_read(none, choices), 0);
    assert_int_equal(choice_read(NULL, choices), 0);
}

TEST(choices_come_by_number_not_by_place)
{
    char *const env[] = {"APIR_DEVICE_10=ten", "A=b", "APIR_DEVICE_2=two=2", "APIR_DEVICE_0=zero",
                         NULL};
    assert_int_equal(choice_read(env, choices), 3);
    assert_int_equal(choices[0].number, 0);
    assert_string_equal(choices[0].id, "zero");
    assert_string_equal(choices[1].id, "two=2");
    assert_int_equal(choices[2].number, 10);
    assert_string_equal(choices[2].id, "ten");
}

TEST(lowest_numbers_stay_where_there_are_too_many)
{
    enum { N = CHOICE_MAX + 30 };
    static char text[N][32];
    static char *env[N + 1];
    for (uint32_t i = 0; i < N; i++) {
        /* 37 and N have no common factor: every number once, in no order. */
        snprintf(text[i], sizeof(text[i]), "APIR_DEVICE_%u=x", i * 37 % N);
        env[i] = text[i];
    }
    assert_int_equal(choice_read(env, choices), CHOICE_MAX);
    for (uint32_t i = 0; i < CHOICE_MAX; i++)
        assert_int_equal(choices[i].number, i);
}

TEST(device_is_found_by_all_of_its_id)
{
    struct apir_reply_device_info infos[3] = {{.id = "cpu"}, {.id = ""}, {.id = "abc"}};
    memset(infos[1].id, 'f', sizeof(infos[1].id)); /* a host that ends it with nothing */
    char long_id[80];
    memset(long_id, 'f', sizeof(long_id));
    long_id[79] = '\0';
    assert_int_equal(choice_find(&(struct choice){0, "cpu"}, infos, 3), 0);
    assert_int_equal(choice_find(&(struct choice){0, "abc"}, infos, 3), 2);
    assert_int_equal(choice_find(&(struct choice){0, "ab"}, infos, 3), -1);
    assert_int_equal(choice_find(&(struct choice){0, "abcd"}, infos, 3), -1);
    assert_int_equal(choice_find(&(struct choice){0, "CPU"}, infos, 3), -1);
    assert_int_equal(choice_find(&(struct choice){0, long_id}, infos, 3), 1);
    assert_int_equal(choice_find(&(struct choice){0, "cpu"}, infos, 0), -1);
}
