import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.zip.CRC32;
import org.roaringbitmap.BatchIterator;
import org.roaringbitmap.BitSetUtil;
import org.roaringbitmap.RelativeRangeConsumer;
import org.roaringbitmap.RoaringBitmap;
import org.roaringbitmap.RoaringBitmapWriter;
import org.roaringbitmap.buffer.ImmutableRoaringBitmap;
import org.roaringbitmap.longlong.Roaring64NavigableMap;

/**
 * Times Java's RoaringBitmap on the positions of one file of bits, and prints "name wall_ms cpu_ms" per line.
 *
 * Arguments: per-value | bulk, the file, its rows, 32 | 64, repeats, seconds to warm up. Positions and masks are
 * made window by window outside of what is timed, so that memory stays that of the bitmaps. Janino compiles this
 * (no JDK is needed), so: no lambdas, and casts where generics would say it.
 */
public class JavaCell {
    static final int WINDOW = 1 << 20;
    static final int CONTAINER = 1 << 16;
    static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    final RandomAccessFile file;
    final long rows;
    final boolean wide;
    final boolean quiet;
    final ByteBuffer raw = ByteBuffer.allocate(WINDOW / 8).order(ByteOrder.LITTLE_ENDIAN);
    final long[] words = new long[WINDOW / 64];
    final int[] positions = new int[WINDOW];
    final long[] widePositions = new long[WINDOW];
    final boolean[] mask = new boolean[WINDOW];
    long wall;
    long cpu;
    long checked;

    JavaCell(RandomAccessFile file, long rows, boolean wide, boolean quiet) {
        this.file = file;
        this.rows = rows;
        this.wide = wide;
        this.quiet = quiet;
    }

    public static void main(String[] arguments) throws Exception {
        boolean bulk = arguments[0].equals("bulk");
        RandomAccessFile file = new RandomAccessFile(arguments[1], "r");
        long rows = Long.parseLong(arguments[2]);
        boolean wide = arguments[3].equals("64");
        int repeats = Integer.parseInt(arguments[4]);
        long warm = System.nanoTime() + (long) (Double.parseDouble(arguments[5]) * 1e9);
        while (System.nanoTime() < warm) {
            new JavaCell(file, Math.min(rows, 2L * WINDOW), wide, true).run(bulk, false);
        }
        for (int i = 0; i < repeats; i++) {
            System.gc();
            new JavaCell(file, rows, wide, false).run(bulk, i == 0);
        }
    }

    void run(boolean bulk, boolean digest) throws Exception {
        if (bulk) {
            runBulk(digest);
        } else if (wide) {
            runWidePerValue(digest);
        } else {
            runPerValue(digest);
        }
    }

    // ---- as the paper did it

    void runPerValue(boolean digest) throws Exception {
        RoaringBitmap bitmap = new RoaringBitmap();
        long count = 0;
        for (long start = 0; start < rows; start += WINDOW) {
            int n = positionsFrom(start);
            count += n;
            go();
            for (int i = 0; i < n; i++) bitmap.add(positions[i]);
            stop();
        }
        report("add");
        ByteArrayOutputStream stream = new ByteArrayOutputStream();
        go();
        bitmap.serialize(new DataOutputStream(stream));
        byte[] bytes = stream.toByteArray();
        stop();
        report("serialize");
        stream = null;
        bitmap = null;
        go();
        RoaringBitmap read = new RoaringBitmap();
        read.deserialize(new DataInputStream(new ByteArrayInputStream(bytes)));
        stop();
        report("deserialize");
        fact("bytes", Long.toString(bytes.length));
        if (digest) fact("raw-digest", hex(bytes));
        bytes = null;
        long hits = 0;
        for (long start = 0; start < rows; start += WINDOW) {
            int n = positionsFrom(start);
            go();
            for (int i = 0; i < n; i++) if (read.contains(positions[i])) hits++;
            stop();
        }
        report("contains");
        expect(hits == count);
        hits = 0;
        for (long start = 0; start < rows; start += WINDOW) {
            long end = Math.min(rows, start + WINDOW);
            go();
            for (long row = start; row < end; row++) if (read.contains((int) row)) hits++;
            stop();
        }
        report("contains-rows");
        expect(hits == count);
        read.runOptimize();
        if (digest) fact("digest", hex(serialized(read)));
    }

    void runWidePerValue(boolean digest) throws Exception {
        Roaring64NavigableMap bitmap = new Roaring64NavigableMap();
        long count = 0;
        for (long start = 0; start < rows; start += WINDOW) {
            int n = positionsFrom(start);
            count += n;
            go();
            for (int i = 0; i < n; i++) bitmap.addLong(widePositions[i]);
            stop();
        }
        report("add");
        ByteArrayOutputStream stream = new ByteArrayOutputStream();
        go();
        bitmap.serializePortable(new DataOutputStream(stream));
        byte[] bytes = stream.toByteArray();
        stop();
        report("serialize");
        bitmap = null;
        stream = null;
        go();
        Roaring64NavigableMap read = new Roaring64NavigableMap();
        read.deserializePortable(new DataInputStream(new ByteArrayInputStream(bytes)));
        stop();
        report("deserialize");
        fact("bytes", Long.toString(bytes.length));
        if (digest) fact("raw-digest", hex(bytes));
        bytes = null;
        long hits = 0;
        for (long start = 0; start < rows; start += WINDOW) {
            int n = positionsFrom(start);
            go();
            for (int i = 0; i < n; i++) if (read.contains(widePositions[i])) hits++;
            stop();
        }
        report("contains");
        expect(hits == count);
        hits = 0;
        for (long start = 0; start < rows; start += WINDOW) {
            long end = Math.min(rows, start + WINDOW);
            go();
            for (long row = start; row < end; row++) if (read.contains(row)) hits++;
            stop();
        }
        report("contains-rows");
        expect(hits == count);
        read.runOptimize();
        if (digest) {
            ByteArrayOutputStream again = new ByteArrayOutputStream();
            read.serializePortable(new DataOutputStream(again));
            fact("digest", hex(again.toByteArray()));
        }
    }

    // ---- the fastest ways the library has, each of which is timed
    // Positions of 64 bits are kept as table formats keep them: a 32-bit bitmap under each high half.

    void runBulk(boolean digest) throws Exception {
        addByWriter();
        addByN();
        addRanges();
        addMask();
        RoaringBitmap bitmap = addByWords();
        ByteBuffer bare = ByteBuffer.allocate(bitmap.serializedSizeInBytes() + (wide ? 12 : 0));
        go();
        serialize(bitmap, bare);
        stop();
        report("serialize");
        bare = null;
        go();
        byte[] stored = store(bitmap);
        stop();
        report("store");
        bitmap = null;
        int head = wide ? 20 : 8;
        int length = stored.length - head - 4;
        fact("bytes", Long.toString(length + (wide ? 12 : 0)));
        if (digest) {
            int from = wide ? 12 : 0;
            fact("digest", hex(Arrays.copyOfRange(stored, head - from, head + length)));
        }
        go();
        RoaringBitmap read = new RoaringBitmap();
        read.deserialize(ByteBuffer.wrap(stored, head, length));
        stop();
        report("deserialize");
        read = null;
        go();
        CRC32 checksum = new CRC32();
        checksum.update(stored, 4, stored.length - 8);
        expect((int) checksum.getValue() == ByteBuffer.wrap(stored).getInt(stored.length - 4));
        read = new RoaringBitmap();
        read.deserialize(ByteBuffer.wrap(stored, head, length));
        stop();
        report("load");
        go();
        Buffer place = ByteBuffer.wrap(stored, head, length).slice();
        ImmutableRoaringBitmap mapped = new ImmutableRoaringBitmap((ByteBuffer) place);
        stop();
        report("map");
        long count = mapped.getLongCardinality();
        mapped = null;
        stored = null;
        maskByBits(read, count);
        maskByRanges(read, count);
        maskByBatches(read, count);
    }

    void addByWriter() throws Exception {
        RoaringBitmapWriter.Wizard wizard =
            (RoaringBitmapWriter.Wizard) RoaringBitmapWriter.class.getMethod("writer").invoke(null);
        RoaringBitmapWriter writer = (RoaringBitmapWriter) wizard.runCompress(false).get();
        for (long start = 0; start < rows; start += WINDOW) {
            int n = positionsFrom(start);
            go();
            if (wide) for (int i = 0; i < n; i++) writer.add((int) widePositions[i]);
            else for (int i = 0; i < n; i++) writer.add(positions[i]);
            stop();
        }
        go();
        writer.flush();
        RoaringBitmap bitmap = (RoaringBitmap) writer.getUnderlying();
        stop();
        report("add-array.writer");
        checked += bitmap.getLongCardinality();
    }

    void addByN() throws IOException {
        RoaringBitmap bitmap = new RoaringBitmap();
        for (long start = 0; start < rows; start += WINDOW) {
            int n = positionsFrom(start);
            go();
            if (wide) for (int i = 0; i < n; i++) positions[i] = (int) widePositions[i];
            bitmap.addN(positions, 0, n);
            stop();
        }
        report("add-array.addN");
        checked += bitmap.getLongCardinality();
    }

    void addRanges() throws IOException {
        RoaringBitmap bitmap = new RoaringBitmap();
        for (long start = 0; start < rows; start += WINDOW) {
            int n = positionsFrom(start);
            go();
            int i = 0;
            while (i < n) {
                int from = i++;
                if (wide) while (i < n && widePositions[i] == widePositions[i - 1] + 1) i++;
                else while (i < n && positions[i] == positions[i - 1] + 1) i++;
                long first = wide ? (int) widePositions[from] & 0xFFFFFFFFL : positions[from];
                bitmap.add(first, first + (i - from));
            }
            stop();
        }
        report("add-array.ranges");
        checked += bitmap.getLongCardinality();
    }

    RoaringBitmap addByWords() throws IOException {
        go();
        long[] all = new long[(int) ((rows + 63) >>> 6)];
        stop();
        for (long start = 0; start < rows; start += WINDOW) {
            int n = positionsFrom(start);
            go();
            if (wide) for (int i = 0; i < n; i++) all[(int) (widePositions[i] >>> 6)] |= 1L << widePositions[i];
            else for (int i = 0; i < n; i++) all[positions[i] >>> 6] |= 1L << positions[i];
            stop();
        }
        go();
        RoaringBitmap bitmap = BitSetUtil.bitmapOf(all);
        stop();
        report("add-array.words");
        return bitmap;
    }

    void addMask() throws IOException {
        go();
        long[] all = new long[(int) ((rows + 63) >>> 6)];
        stop();
        for (long start = 0; start < rows; start += WINDOW) {
            int n = wordsFrom(start);
            for (int i = 0; i < n; i++) mask[i] = (words[i >>> 6] >>> i & 1) != 0;
            int at = (int) (start >>> 6);
            go();
            for (int i = 0; i < n; i += 64) {
                long word = 0;
                int end = Math.min(64, n - i);
                for (int j = 0; j < end; j++) word |= (mask[i + j] ? 1L : 0L) << j;
                all[at++] = word;
            }
            stop();
        }
        go();
        RoaringBitmap bitmap = BitSetUtil.bitmapOf(all);
        stop();
        report("add-mask.words");
        checked += bitmap.getLongCardinality();
    }

    byte[] store(RoaringBitmap bitmap) {
        bitmap.runOptimize();
        int length = 4 + (wide ? 12 : 0) + bitmap.serializedSizeInBytes();
        ByteBuffer out = ByteBuffer.allocate(8 + length);
        out.putInt(length);
        if (wide) out.order(ByteOrder.LITTLE_ENDIAN).putInt(1681511377);
        else out.putInt(1581511376);
        serialize(bitmap, out);
        CRC32 checksum = new CRC32();
        checksum.update(out.array(), 4, length);
        out.order(ByteOrder.BIG_ENDIAN).putInt((int) checksum.getValue());
        return out.array();
    }

    void serialize(RoaringBitmap bitmap, ByteBuffer out) {
        if (wide) out.order(ByteOrder.LITTLE_ENDIAN).putLong(1).putInt(0);
        bitmap.serialize(out);
    }

    // ---- which rows of a file are deleted, as a mask of each window and as words of the whole

    void maskByBits(RoaringBitmap bitmap, long count) {
        go();
        long[] all = BitSetUtil.toLongArray(bitmap);
        stop();
        long wallOfWords = wall;
        long cpuOfWords = cpu;
        report("words");
        wall = wallOfWords;
        cpu = cpuOfWords;
        long hits = 0;
        for (long start = 0; start < rows; start += WINDOW) {
            int n = (int) Math.min(rows - start, WINDOW);
            go();
            for (int i = 0; i < n; i += 64) {
                int at = (int) (start + i >>> 6);
                long word = at < all.length ? all[at] : 0;
                int end = Math.min(64, n - i);
                for (int j = 0; j < end; j++) mask[i + j] = (word >>> j & 1) != 0;
            }
            stop();
            hits += trueOf(n);
        }
        report("mask.bits");
        expect(hits == count);
    }

    static class Filler implements RelativeRangeConsumer {
        final boolean[] mask;
        Filler(boolean[] mask) { this.mask = mask; }
        public void acceptPresent(int at) { mask[at] = true; }
        public void acceptAbsent(int at) { mask[at] = false; }
        public void acceptAllPresent(int from, int to) { Arrays.fill(mask, from, to, true); }
        public void acceptAllAbsent(int from, int to) { Arrays.fill(mask, from, to, false); }
    }

    void maskByRanges(RoaringBitmap bitmap, long count) {
        Filler filler = new Filler(mask);
        long hits = 0;
        for (long start = 0; start < rows; start += WINDOW) {
            int n = (int) Math.min(rows - start, WINDOW);
            go();
            bitmap.forAllInRange((int) start, n, filler);
            stop();
            hits += trueOf(n);
        }
        report("mask.ranges");
        expect(hits == count);
    }

    void maskByBatches(RoaringBitmap bitmap, long count) {
        BatchIterator batches = bitmap.getBatchIterator();
        int[] batch = new int[CONTAINER];
        int at = 0;
        int have = 0;
        long hits = 0;
        for (long start = 0; start < rows; start += WINDOW) {
            int n = (int) Math.min(rows - start, WINDOW);
            long end = start + n;
            go();
            Arrays.fill(mask, 0, n, false);
            while (true) {
                while (at < have && batch[at] < end) mask[batch[at++] - (int) start] = true;
                if (at < have || !batches.hasNext()) break;
                have = batches.nextBatch(batch);
                at = 0;
            }
            stop();
            hits += trueOf(n);
        }
        report("mask.batches");
        expect(hits == count);
    }

    long trueOf(int n) {
        long found = 0;
        for (int i = 0; i < n; i++) if (mask[i]) found++;
        return found;
    }

    // ---- input, clock, output

    /** Reads the words of the window at start; returns how many rows it has. */
    int wordsFrom(long start) throws IOException {
        int n = (int) Math.min(rows - start, WINDOW);
        int length = (n + 7) / 8;
        Arrays.fill(raw.array(), (byte) 0);
        file.seek(start / 8);
        file.readFully(raw.array(), 0, length);
        raw.rewind();
        raw.asLongBuffer().get(words);
        return n;
    }

    /** Makes the positions of the window at start; returns how many they are. */
    int positionsFrom(long start) throws IOException {
        int n = wordsFrom(start);
        int count = 0;
        for (int i = 0; i < (n + 63) / 64; i++) {
            long word = words[i];
            while (word != 0) {
                long position = start + 64L * i + Long.numberOfTrailingZeros(word);
                if (wide) widePositions[count++] = position;
                else positions[count++] = (int) position;
                word &= word - 1;
            }
        }
        return count;
    }

    void go() {
        cpu -= THREADS.getCurrentThreadCpuTime();
        wall -= System.nanoTime();
    }

    void stop() {
        wall += System.nanoTime();
        cpu += THREADS.getCurrentThreadCpuTime();
    }

    void report(String name) {
        if (!quiet) System.out.println(name + " " + wall / 1e6 + " " + cpu / 1e6);
        System.out.flush();
        wall = 0;
        cpu = 0;
    }

    void fact(String name, String value) {
        if (!quiet) System.out.println(name + " " + value);
    }

    static void expect(boolean holds) {
        if (!holds) throw new IllegalStateException("the bitmap has other positions than were added");
    }

    static byte[] serialized(RoaringBitmap bitmap) {
        ByteBuffer out = ByteBuffer.allocate(bitmap.serializedSizeInBytes());
        bitmap.serialize(out);
        return out.array();
    }

    static String hex(byte[] bytes) throws Exception {
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < digest.length; i++) text.append(String.format("%02x", new Object[] {Byte.valueOf(digest[i])}));
        return text.toString();
    }
}
