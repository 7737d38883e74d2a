import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import org.roaringbitmap.longlong.LongIterator;
import org.roaringbitmap.longlong.Roaring64Bitmap;

/**
 * Answers requests on standard input, each for a Roaring64Bitmap, with its bytes and its numbers.
 *
 * A request is a number of serialized sets, which are read and united in their order, the numbers to add, those to
 * remove, and whether to run-optimise. Lists have their length in front. Janino compiles this, so: no lambdas.
 */
public class LongSets {
    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        ByteArrayOutputStream answers = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(answers);
        int requests = in.readInt();
        for (int i = 0; i < requests; i++) {
            answer(asked(in), out);
        }
        System.out.write(answers.toByteArray());
        System.out.flush();
    }

    private static Roaring64Bitmap asked(DataInputStream in) throws IOException {
        Roaring64Bitmap found = new Roaring64Bitmap();
        int sets = in.readInt();
        for (int i = 0; i < sets; i++) {
            byte[] data = new byte[in.readInt()];
            in.readFully(data);
            Roaring64Bitmap read = new Roaring64Bitmap();
            read.deserialize(new DataInputStream(new ByteArrayInputStream(data)));
            if (i == 0) {
                found = read;
            } else {
                found.or(read);
            }
        }
        int added = in.readInt();
        for (int i = 0; i < added; i++) {
            found.addLong(in.readLong());
        }
        int removed = in.readInt();
        for (int i = 0; i < removed; i++) {
            found.removeLong(in.readLong());
        }
        if (in.readBoolean()) {
            found.runOptimize();
        }
        return found;
    }

    private static void answer(Roaring64Bitmap found, DataOutputStream out) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        found.serialize(new DataOutputStream(bytes));
        out.writeInt(bytes.size());
        out.write(bytes.toByteArray());
        out.writeInt((int) found.getLongCardinality());
        LongIterator numbers = found.getLongIterator();
        while (numbers.hasNext()) {
            out.writeLong(numbers.next());
        }
    }
}
