// Writes properties.json: what java.util.Properties reads from files, nasty ones included.
// Run with: java Properties.java > properties.json   (JDK 17 made the committed file)

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

public class Properties {
    static final String[] FILES = {
        "", "a", "a=b", "a:b", "a b", "a = b", "a : b", "a   b", "a\tb", "a\fb", "=b", ":b", " = b", "a=", "a:", "a = ", "=", ":", "==", "a==b", "a=:b", "a:=b",
        "a = = b", "a : : b", "a b=c", "a b c", "a  =  b  c  ", "a=b ", "a=b\t", "a=b \t \n", "  a=b", "\ta=b", "\fa=b", "a=b\n\nc=d\n", "a=b\r\nc=d\r\n",
        "a=b\rc=d", "a=b\n\rc=d", "\n\n\r\r\n", "#a=b", "!a=b", "  #a=b", "\t!a=b", "a#b=c", "a!b=c", "a=#b", "a=b #c", "a=b ! c", "#a\\\nb=c", "#a\\\\\nb=c", "# \\u12",
        "#\r#\r\na=b", "a=b\\\nc", "a=b\\\n   c", "a=b \\\n   c", "a=b\\\r\nc", "a=b\\\rc", "a=b\\\n\rc", "a=b\\\r\n\r\nc", "a=b\\\n\nc=d", "a=b\\\n   \nc=d", "a=b\\\n#c\nd=e",
        "a=b\\\n  #c", "a=b\\\n!c", "a\\\nb=c", "a\\\n  b=c", "a \\\n b", "a\\\n =b", "a\\\n=b", "a=\\\nb", "a=\\\n  b", "a\\\n", "a\\", "a=b\\", "a=b\\\\", "a=b\\\\\nc=d", "a=b\\\\\\\nc",
        "a=b\\\\\\\\\nc=d", "\\", "\\\n", "\\\\", "\\\\\n", "\\\na=b", "\\\n\\\na=b", "\\\n#a=b", "  \\\n  a=b", "  \\\n  #a=b\nc=d", "\\\n\na=b", "a=b\\\n", "a=b\\\n\\\nc", "a=b\\\n\\\n", "a=b\\\n\\",
        "a\\=b=c", "a\\:b=c", "a\\ b=c", "a\\tb=c", "a\\\tb=c", "\\=a=b", "\\:a=b", "\\ a=b", "\\#a=b", "\\!a=b", "a\\\\=b", "a\\\\:b", "a\\\\ b", "a=\\=b", "a=\\ b", "a=\\  b", "a = \\ b", "a=b\\ ",
        "a=\\t\\n\\r\\f", "a=\\a\\b\\v\\0\\e\\x41\\'\\\"", "a=\\u0041", "a=\\u00e9\\u20ac", "a=\\uD83D\\uDE00", "a=\\uD83D", "a=\\uDE00\\uD83D", "a=\\u000a", "a=\\u0000", "a=\\uABCD\\uabcd", "a=\\u004", "a=\\u", "a=\\u12",
        "a=\\u00g1", "a=\\uuu0041", "a=\\U0041", "a=\\\\u0041", "\\u0061=b", "a\\u003db=c", "a\\u0020b=c", "\\u0023a=b", "a=\\u0020b", "a=b\\u0020", "a=\\u005cn", "a=b\\u000ac", "a\\u=b", "a=\\u0 41", "a=\\u00\\\n41", "a=b\\u\n0041",
        "clusters = A, B\nA.bootstrap.servers = a:9092\nA->B.enabled: true\nA->B.topics true\n", "topics = .*   # everything", "x=.*\\.internal", "x=.*\\\\.internal", "x=[\\-\\.]", "x=[\\\\-\\\\.]", "x=a\\\\",
        "x=C:\\temp\\new", "x=${env:HOME}", "x=\\${env:HOME}", "a=1\na=2\na=3", "a=1\nb=2\na = \n", "a=1\na", "A->B.topics=a,\\\n  b,\\\n  c\nd=e", "A->B.topics = a, \\\n   b , \\\n\n c = d",
        "a=\u00e9", "\u00e9=a", "a=\u00a0b", "\u00a0a=b", "a\u00a0b=c", "a=\u0085b", "a\u0085=b", "a\u000bb=c", "a=\u0001\u007f", "a\0b=c", "\0=\0", "a=b\0", "\u00ef\u00bb\u00bfa=b", "a=\u00c3\u00a9",
        "a=b\u001ac", "   ", "\t\f ", "   \n  \n", "a=b\n   ", "a=b\n#", "a=b\n!\n", "!", "#", "#\\", "#\\\n", "a\n=b", "a \n =b", "a=b\n  = c", "a:\\\n:b", "a=\\\n=b", "a =\\\n = b", "a\\\n\\\n\\\nb=c", "a=b\\\t\nc", "a=b\\ \nc",
    };

    static void string(StringBuilder out, String text) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < 0x20 || c > 0x7e) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        out.append('"');
    }

    // Keeps every put, so that duplicates and their order are seen. Text may hold lone surrogates;
    // those go out as arrays of UTF-16 units.
    static class Recorder extends java.util.Properties {
        final List<String> puts = new ArrayList<>();

        @Override
        public synchronized Object put(Object key, Object value) {
            puts.add((String) key);
            puts.add((String) value);
            return super.put(key, value);
        }
    }

    static void units(StringBuilder out, String text) {
        out.append('[');
        for (int i = 0; i < text.length(); i++) {
            if (i > 0) out.append(',');
            out.append((int) text.charAt(i));
        }
        out.append(']');
    }

    static void file(StringBuilder out, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.ISO_8859_1);
        out.append("{\"file\": ");
        string(out, text);
        Recorder recorder = new Recorder();
        try {
            recorder.load(new ByteArrayInputStream(bytes));
            out.append(", \"puts\": [");
            for (int i = 0; i < recorder.puts.size(); i++) {
                if (i > 0) out.append(", ");
                units(out, recorder.puts.get(i));
            }
            out.append("]}");
        } catch (IllegalArgumentException e) {
            out.append(", \"refused\": ");
            string(out, e.getMessage());
            out.append("}");
        }
    }

    public static void main(String[] args) throws IOException {
        StringBuilder out = new StringBuilder("{\"java\": ");
        string(out, System.getProperty("java.version"));
        out.append(",\n\"files\": [\n");
        for (int i = 0; i < FILES.length; i++) {
            if (i > 0) out.append(",\n");
            file(out, FILES[i]);
        }
        // Random files over the characters that matter.
        String[] pieces = {"a", "b", "k", "=", ":", " ", "\t", "\f", "\\", "\\", "\\\\", "\n", "\n", "\r", "\r\n", "#", "!", "\\u0041", "\\u", "\\n", "\u00e9", "\\\n", "  "};
        Random random = new Random(4711);
        for (int i = 0; i < 600; i++) {
            StringBuilder text = new StringBuilder();
            int length = 1 + random.nextInt(24);
            for (int n = 0; n < length; n++) text.append(pieces[random.nextInt(pieces.length)]);
            out.append(",\n");
            file(out, text.toString());
        }
        out.append("\n]}\n");
        System.out.print(out);
    }
}
