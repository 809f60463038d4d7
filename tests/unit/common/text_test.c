/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "common/text.h"
#include "common/cleanup.h"

TEST(what_a_terminal_would_obey_is_taken_out)
{
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"", ""},
        {"/usr/lib/libggml.so.0", "/usr/lib/libggml.so.0"},
        {"f\xc3\xbcr \xe2\x82\xac \xf0\x9f\xa6\x99", "f\xc3\xbcr \xe2\x82\xac \xf0\x9f\xa6\x99"},
        {"a\033[2Jb", "a?[2Jb"},
        {"a\nPASS\r\tb\177", "a?PASS??b?"},
        /* C1, as UTF-8 and as a byte. */
        {"a\xc2\x9b"
         "2Jb\xc2\x80\xc2\x9f\xc2\xa0",
         "a??2Jb????\xc2\xa0"},
        {"a\x9b"
         "2Jb",
         "a?2Jb"},
        /* What turns the order of the text around: what is read is not what is there. */
        {"a\xe2\x80\xae"
         "b\xe2\x81\xa9\xd8\x9c\xe2\x80\x8f",
         "a???b????????"},
        {"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xa7\xe2\x81\xaa", "??????\xe2\x80\xa7\xe2\x81\xaa"},
        /* No UTF-8: cut short, a surrogate, more bytes than it takes, out of range. */
        {"a\xe2\x82", "a??"},
        {"\xed\xa0\x80", "???"},
        {"\xc0\x9b\xe0\x82\x9b", "?????"},
        {"\xf4\x90\x80\x80\xff", "?????"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[64];

        snprintf(text, sizeof(text), "%s", cases[i].text);
        apir_text_clean(text);
        assert_string_equal(text, cases[i].clean);
    }
}

TEST(a_printed_line_is_one_line)
{
    cleanup_free char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    apir_text_print(out, "%s\t%s\n", "a\nb\033", "c");
    fclose(out);
    assert_string_equal(text, "a?b?\tc\n");
}
