// Writes patterns.json: Java's own answers to patterns and names.
// Run with: java Patterns.java > patterns.json   (JDK 17 made the committed file)

import java.util.Random;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

public class Patterns {
    // Names that most patterns are tried on: topics, groups, and what no topic may be called.
    static final String[] NAMES = {
        "", "a", "b", "A", "ab", "abc", "aab", "aaab", "aaa", "abab", "orders", "Orders", "ORDERS", "orders-1", "orders.v1",
        "orders_v1", "my.topic", "my-topic", "mytopic", "test", "test-1", "a-test", "test.internal", "mm2-offsets.A.internal",
        "__consumer_offsets", "A.orders", "x.replica", "1", "42", "a1", "-", ".", "_", "]", "[", "&", "a&b", "^", "^a", "$", "a$",
        "\\", "a\\b", "{", "}", "a{1", "3}", "a{1,3}", ":", "l", "p", "h", "alpha", " ", "a b", "\t", "\n", "a\n", "\na", "a\nb",
        "\r\n", "a\r\n", "\r", "a\r", "\u0085", "a\u0085", "\u2028", "a\u2028", "\u000b", "\f", "\u00a0", "\u00e9", "\u00c9",
        "caf\u00e9", "\u0130", "\u212a", "k", "K", "\u017f", "s", "S", "\ud83d\ude00", "a\ud83d\ude00", "\u0660", "=", "+", "~", "|",
        "a|b", "(", ")", "*", "a*", "?", "#", "\u0001", "\u0007", "\u001b", "\u007f", "zz", "xyxy", "abba", "aa", "bb", "cab",
    };

    static final String[] PATTERNS = {
        // Plain names and the usual lists.
        "", "a", "orders", ".*", ".+", "orders.*", "orders|test", "orders|test-1|.*internal", "my.topic", "my\\.topic",
        "mm2.*\\.internal|.*\\.replica|__.*", "console-consumer-.*|connect-.*|__.*", ".*[\\-\\.]internal|.*\\.replica|__.*",
        "^test.*", "test.*$", "^test.*$", "^a$|^b$", "(^a|b$)", "a|ab|abc", "|a", "a|", "(|a)b", "()", "(a|)", "a||b",
        "(orders|test)(-1)?", "(?:orders|test).*", "[a-z]+", "[a-z0-9._-]+", "[a-zA-Z0-9\\._\\-]{1}", "a{2}", "a{1,}", "a{0,2}b",
        "a{1", "3}", "a{,3}", "a{", "a{}", "a{x}", "{1}", "{", "}", "a}", "]", "a]", "a{2,1}", "a{1}{2}", "a**", "a*+", "a+*", "*a",
        "+", "?", "a|*", "(*a)", "a{0}", "(ab){2}", "(a|b){2,3}", "(a*)*", "(a*)+b", "(a+)+b",
        // Laziness and possession.
        "a+?b", "a*?", "a??b", "a++ab", "a++b", "a*+ab", "a?+ab", "a{1,2}+ab", "a{1,2}?ab", "(?:ab)++", "(?>a+)b", "(?>a+)ab",
        "(?>a|ab)c", "(?>a|ab)b", "(?>a*)", "(a|ab)(c|bcd)?", "(?:a|ab)++c", "[a-z]++1", "\\w++-1", ".++", ".*+s",
        // Looking around.
        "(?!test).*", "(?!.*-test$).*", "(?!.*-test$)(?!__).*", "(?!.*internal).*", "(?=orders).*1", "(?=a$)a", "(?=a$)a\\n",
        "a(?!b).*", "a(?=b)..?", ".*(?<!internal)", ".*(?<=orders).*", ".*(?<=-)1", "(?<!a)b.*", ".*(?<=a|bc).*", "(?<=a+)b", "(?<=a*)b",
        "a(?<=a{1,2})b", ".*(?<!-1|test)", "(?<=(a))b", "(?!)", "(?=)", "(?!)a|b", "(?=a)*", "(?=a)?a", ".*(?<=^a)b", "(?!(?:a|b)$).+",
        "^(?!(mm2|__)).*", "((?!internal).)*", "(?:(?!\\.).)+", "(?<!.)a", "a(?!.)", "(?<=\\n)a", "\\n(?<=\\n)a",
        // References.
        "(a)\\1", "(a|b)\\1", "(.)(.)\\2\\1", "(..)\\1", "(a)(b)\\2", "\\1", "(a)\\2", "(a\\1)", "\\1(a)", "(a)\\11", "(?<x>a)\\k<x>",
        "(?<x>.)b\\k<x>.*", "\\k<x>", "(?<x>a)(?<x>b)", "(?<1x>a)", "(?<>a)", "(?<x_y>a)", "(a)|b\\1", "(a)?b\\1", "(a|ab)\\1?", "(?:(a)|b)*\\1",
        "(?i)(a)\\1", "(x)y|(z)\\2", "(z)\\1", "(a*)\\1", "(?:(a|b)\\1)+", "(?:(.)\\1)+",
        // Quotes.
        "\\Qmy.topic\\E", "\\Qa.b", "\\Q.\\E*", "\\Qab\\E+", "\\Q\\E", "\\Q", "a\\E", "\\E", "\\Qa\\Eb\\Qc\\E", "\\\\Q", "a\\\\b",
        "[\\Q^-]\\E]", "[\\Qa-c\\E]+", "[a\\Q]\\E]", "\\Q[\\E", "\\Q\\\\E", "[\\Qab\\E-c]+", "\\Q1\\E{2}", "(a)\\1\\Q1\\E", "\\Q|\\E",
        "\\Qa|b\\E", "\\Q(\\E", "\\Q$\\E", "[a-\\Qc\\E]+", "x\\Q\\Qa\\E",
        // Escapes.
        "\\t", "\\n", "\\r", "\\f", "\\a", "\\e", "\\cA", "\\c", "\\cG", "\\ca", "\\0", "\\01", "\\07", "\\0141", "\\0101b", "\\0777", "\\08", "\\0400",
        "\\x61", "\\x6", "\\x6g", "\\x{61}", "\\x{1F600}", "\\x{}", "\\x{110000}", "\\x{61", "\\u0061", "\\u00e9", "\\u006", "\\uD83D\\uDE00",
        "\\uD83D", "\\.", "\\-", "\\_", "\\ ", "\\:", "\\#", "\\&", "\\j", "\\l", "\\q", "\\y", "\\8", "\\9", "\\", "a\\", "\\i", "\\N{LATIN SMALL LETTER A}",
        "\\X", "\\G", "\\Ga", "a\\G", "\\b{g}", "\\$", "\\^a", "\\|", "\\(", "\\[", "\\{", "\\}", "\\*", "\\?", "\\+", "\\\\", "\\\u00e9", "\\C", "\\K", "\\m",
        // Predefined classes: ASCII.
        "\\d", "\\d+", "\\D", "\\w", "\\w+", "\\W", "\\s", "\\S", "\\h", "\\H", "\\v", "\\V", "\\R", "a\\R", "\\R\\n", "\\R+", "\\R{2}", "(\\R){2}", "(?:a|\\R)+", "(\\R|a)b?", "(?>\\R)\\n", "\\r\\R",
        "[\\d]", "[\\w-]+", "[^\\w]", "[\\s\\S]", "[\\s\\S]+", "[\\D\\d]*", "[\\h]", "[\\v]", "[\\R]", "[\\b]", "[\\B]", "[\\A]", "[\\d-z]+", "[a-\\d]", "[\\w&&\\D]+",
        "\\p{Alpha}", "\\p{Alpha}+", "\\P{Alpha}", "\\p{Lower}", "\\p{Upper}", "\\p{Digit}", "\\p{Alnum}", "\\p{Punct}", "\\p{Graph}", "\\p{Print}",
        "\\p{Blank}", "\\p{Cntrl}", "\\p{XDigit}", "\\p{Space}", "\\p{ASCII}", "[\\p{Alpha}_]+", "[^\\p{Alpha}]", "[\\P{Alpha}]", "\\p{alpha}", "\\p{Alpha",
        "\\p", "\\pL", "\\p{L}", "\\p{Lu}", "\\p{javaLowerCase}", "\\p{InGreek}", "\\p{IsLatin}", "\\p{IsAlphabetic}", "\\p{}", "\\p{Foo}", "[\\p{L}]", "\\PL", "\\pA",
        // Flags.
        "(?i)orders", "(?i)a|b", "a(?i)b", "(a(?i)b)c|ab", "((?i)a)b", "(?i:a)b", "(?i)[a-z]+", "(?i)[^a]", "(?i)[A]b", "(?i)k", "(?i)s", "(?i)\u00e9", "(?i)[\u00e9]",
        "(?i)\\p{Lower}", "(?i)\\p{Upper}", "(?i)\\P{Lower}", "(?i)[\\p{Upper}]", "(?i)[^\\p{Lower}]", "(?i)\\p{Alpha}", "(?i)\\x41", "(?i)\\Qab\\E", "(?i)(?-i)a", "(?i)(?-i:a)b",
        "(?i)a(?-i)b", "(?-i)a", "(?s).", "(?s).*", "(?s:.)", "(?s)(?-s).", "(?d).", "(?d)a$", "(?d)a$\\n", "(?d)a$\\r", "(?m)^a$", "(?x)a b", "(?u)a", "(?iu)k", "(?U)\\w", "(?z)a",
        "(?i", "(?", "(?)", "(?:)", "(?i)*", "(?is)A.B", "(?i-s)a", "(?i)[W-c]", "(?i)[[a][b]]+", "(?i)[a&&[A]]", "(?i)[a-z&&[^A]]+", "(?i)A{2}", "(?-u)a", "(?-x)a", "(?--i)a",
        // Dots and anchors.
        ".", "a.", ".a", "..", "a.b", "^", "$", "^$", "^a", "a$", "a$\\n", "a$\\r\\n", "a$\\r", "a\\r$\\n", "a\\Z", "a\\Z\\n", "a\\z", "a\\z\\n", "\\Aa", "a\\A", "a^b", "a$b", "a$.*", "(a$)\\n",
        "(?:a$)+", "a$\\u0085", "a$\\u2028", "$a", "$\\n", "^^a$$", "a$$", "(a|b)$", "a(?:$|b)", "a($|b)\\n?", "\\ba", "a\\b", "\\ba\\b", ".*\\btest\\b.*", "\\Ba", "a\\B", "a\\Bb", ".*\\B1", "\\b",
        "\\B", "\\b-", "a\\b-.*", "a\\Z?", "^*a", "$+", "\\b+a",
        // Character classes.
        "[a]", "[abc]+", "[^a]", "[^ab]+", "[a-c]+", "[c-a]", "[a-]+", "[-a]+", "[a-c-]+", "[a-b-c]+", "[]", "[]a]", "[^]", "[^]a]", "[]]", "[^]]", "[", "[a", "[a-", "[^", "a[", "[]-a]", "[^-a]+",
        "[[]", "[a[]", "[[a]", "[[a]]", "[a[b]]+", "[[a][b]]+", "[a-c[x-z]]+", "[^a[b]]", "[^[a]]", "[^[^a]]", "[[^a]]", "[a[^b]]", "[[a]b]+", "[a-[b]]+", "[a[b]-c]", "[a-c[1-3]-]+",
        "[a&&b]", "[a-z&&[^b]]+", "[a-z&&[aeiou]]+", "[a-z&&b-d]+", "[a-c&&[b-d]]", "[[a-c]&&[b-d]]", "[a-c&&b-d&&c-e]", "[a-c&&[b-d]&&[c-e]]", "[^a-c&&b-d]", "[^a-c&&[b-d]]", "[a-z&&^b]", "[a-z&&[^m-p]]+",
        "[a&b]+", "[&]", "[&a]+", "[a&]+", "[&&a]", "[a&&]", "[&&]", "[a&&&b]", "[&&&]", "[a&&&&b]", "[a-z&&[b-d]e]", "[a-z&&e[b-d]]", "[a[b]&&b]", "[[a]b&&b]", "[a-c&&[b][c]]", "[a-c&&[ab]&c]",
        "[a-c&&[^b]&&[^c]]", "[[a-c]&&b]", "[a-z&&[a-c&&[^b]]]", "[^a&&[^b]]", "[\\w&&[^\\d]]+", "[\\w&&[^_]]+", "[a-z&&[^aeiou]&&[^z]]+", "[a-z&&]]", "[a-z&&-]", "[a-z&&\\-]", "[!-&&b]", "[a-&&b]",
        "[[:alpha:]]", "[[:alpha:]]+", "[:alpha:]", "[:alpha:]+", "[[.a.]]", "[[=a=]]", "[\\]]", "[\\[]", "[\\^a]+", "[a^]+", "[\\\\]", "[\\x61-\\x63]+", "[\\u0061-\\u0063]", "[\\t-\\r]", "[\\01-\\07]",
        "[a b]+", "[ ]", "[.]", "[.*+?]", "[$]", "[|]", "[a|b]+", "[(]", "[)]", "[{}]", "[a{1}]+", "[#]", "[\u00e9]", "[^\u00e9]", "[\ud83d\ude00]", "[^\ud83d\ude00]", "[\u00e0-\u00ff]+", "[\\cA-\\cG]", "[\\e]",
        "[--a]", "[+--]", "[a--]", "[\\--a]", "[a\\-c]+", "[\\w.-]+", "[\\w\\-.]+", "[-.]", "[.-]", "[-]", "[--]", "[^^]", "[^\\^]", "[\\Q&&\\E]", "[a\\Q&&\\Eb]+", "[\\&&a]", "[a&\\&b]+", "[a&[b]]+",
        // Groups.
        "(", ")", "(a", "a)", "((a)", "(a))", "(?:a", "(?=a", "(?<a", "(?#x)a", "(?P<x>a)", "(?|a)", "(?'x'a)", "(?&x)", "(?R)", "(?1)", "(?<=a)b", "(?<!a)b", "(?>a", "((((a))))", "(a)(b)(c)", "(?:a)(?:b)*",
        "a|b|", "(a|b)*", "(a|b)+?", "(?:a|b|c){3}", "(a{1}b{1})+", "a#b", "a b", "(a) (b)",
    };

    // Pieces of random patterns, and short names over the same letters to try them on.
    static final String[] PIECES = {
        "a", "a", "b", "b", "c", "A", "-", "_", ".", ".", "\\.", "\\-", "\\w", "\\W", "\\d", "\\s", "\\b", "^", "$", "\\z", "\\Z", "[ab]", "[^a]", "[a-c&&[^b]]",
        "[a-", "[", "]", "[^", "&&", "&", "(", "(", ")", ")", "(?:", "(?i)", "(?i:", "(?-i)", "(?s)", "(?>", "(?=", "(?!", "(?<=", "(?<!", "|", "|", "*", "+", "?", "??",
        "*+", "++", "?+", "*?", "+?", "{2}", "{1,2}", "{0,}", "{2,}+", "\\1", "\\2", "\\Q", "\\E", "\\p{Alpha}", "\\P{Lower}", "\\x61", "\\R", "\\h", "\n", "\\n", "1", ",", ":",
    };

    static String random(Random random, String[] pieces, int most) {
        StringBuilder text = new StringBuilder();
        int length = 1 + random.nextInt(most);
        for (int i = 0; i < length; i++) text.append(pieces[random.nextInt(pieces.length)]);
        return text.toString();
    }

    static void answers(StringBuilder out, String text, String[] names) {
        out.append("{\"pattern\": ");
        string(out, text);
        try {
            Pattern pattern = Pattern.compile(text);
            out.append(", \"matches\": [");
            boolean first = true;
            for (int n = 0; n < names.length; n++) {
                if (pattern.matcher(names[n]).matches()) {
                    if (!first) out.append(", ");
                    out.append(n);
                    first = false;
                }
            }
            out.append("]}");
        } catch (PatternSyntaxException e) {
            out.append(", \"refused\": ");
            string(out, e.getDescription());
            out.append("}");
        }
    }

    static void names(StringBuilder out, String field, String[] names) {
        out.append(",\n\"" + field + "\": [");
        for (int i = 0; i < names.length; i++) {
            if (i > 0) out.append(", ");
            string(out, names[i]);
        }
        out.append("]");
    }

    static void string(StringBuilder out, String text) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < 0x20 || c > 0x7e) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        out.append('"');
    }

    public static void main(String[] args) {
        StringBuilder out = new StringBuilder();
        out.append("{\"java\": ");
        string(out, System.getProperty("java.version"));
        names(out, "names", NAMES);
        out.append(",\n\"patterns\": [\n");
        for (int i = 0; i < PATTERNS.length; i++) {
            if (i > 0) out.append(",\n");
            answers(out, PATTERNS[i], NAMES);
        }
        Random random = new Random(4711);
        String[] short_names = new String[60];
        for (int i = 0; i < short_names.length; i++) {
            short_names[i] = i == 0 ? "" : random(random, new String[] {"a", "b", "c", "A", "B", "-", ".", "1", "\n", "a", "b"}, 5);
        }
        out.append("\n]");
        names(out, "random_names", short_names);
        out.append(",\n\"random_patterns\": [\n");
        for (int i = 0; i < 2500;) {
            String pattern = random(random, PIECES, 9);
            try {
                Pattern.compile(pattern);
            } catch (PatternSyntaxException e) {
                // Most random text is no pattern; some of it shows what Java refuses.
                if (random.nextInt(10) > 0) continue;
            }
            if (i++ > 0) out.append(",\n");
            answers(out, pattern, short_names);
        }
        out.append("\n]}\n");
        System.out.print(out);
    }
}
